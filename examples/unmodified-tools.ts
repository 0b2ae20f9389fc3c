// Tools that accept a file system run on a session unmodified: here fast-glob and isomorphic-git.
import fastGlob from 'fast-glob'
import { openEngine } from 'forkspace'
import git from 'isomorphic-git'

await using engine = await openEngine()
const { fs } = await engine.sessions.create({
  files: {
    '/app/src/main.js': 'export {}\n',
    '/app/src/util/list.js': 'export {}\n',
    '/app/LICENSE': 'MIT\n',
  },
})
console.log(await fastGlob('**/*.js', { cwd: '/app', fs }))

const author = { name: 'Ada', email: 'ada@example.org' }
await git.init({ fs, dir: '/app', defaultBranch: 'main' })
await git.add({ fs, dir: '/app', filepath: ['src', 'LICENSE'] })
await git.commit({ fs, dir: '/app', author, message: 'Begin' })
fs.appendFileSync('/app/LICENSE', 'Copyright Ada\n')
for (const [path, head, workdir, stage] of await git.statusMatrix({ fs, dir: '/app' }))
  console.log(path, head, workdir, stage)
const [commit] = await git.log({ fs, dir: '/app' })
console.log(`${commit?.commit.author.name}: ${commit?.commit.message.trim()}`)

// Prints:
// [ 'src/main.js', 'src/util/list.js' ]
// LICENSE 1 2 1
// src/main.js 1 1 1
// src/util/list.js 1 1 1
// Ada: Begin
