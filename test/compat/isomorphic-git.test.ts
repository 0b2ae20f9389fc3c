import nodeFs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import git, { type FsClient } from 'isomorphic-git'
import { describe, expect, test } from 'vitest'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { isLong } from '../support/seed.js'
import { copyOut, inBoth, type Fs, type Place } from './places.js'

const author = { name: 'Ada Author', email: 'ada@example.org', timestamp: 1_700_000_000, timezoneOffset: 0 }

/** The two forms of file system that isomorphic-git accepts. */
const forms: Record<string, (fs: Fs) => FsClient> = {
  callbacks: (fs) => {
    const { readFile, writeFile, unlink, readdir, mkdir, rmdir, stat, lstat, readlink, symlink, chmod } = fs
    const methods = {
      readFile,
      writeFile,
      unlink,
      readdir,
      mkdir,
      rmdir,
      stat,
      lstat,
      readlink,
      symlink,
      chmod,
    }
    return methods
  },
  // From a complete node:fs it uses the promises.
  promises: (fs) => fs,
}

/** 40 files in 8 directories, one of them executable, and a symlink. */
async function writeFiles({ fs, root }: Place): Promise<void> {
  for (let i = 0; i < 40; i++) {
    const directory = `${root}/src/d${i % 8}`
    if (i < 8) await fs.promises.mkdir(directory, { recursive: true })
    await fs.promises.writeFile(`${directory}/f${i}.txt`, `file ${i}\n`.repeat(1 + (i % 40)))
  }
  await fs.promises.writeFile(`${root}/run.sh`, '#!/bin/sh\n')
  await fs.promises.chmod(`${root}/run.sh`, 0o755)
  await fs.promises.symlink('src/d0/f0.txt', `${root}/link`)
}

/** Changes two branches and merges them. Returns the results of isomorphic-git. */
async function work(place: Place, fs: FsClient): Promise<object> {
  const { root: dir } = place
  const { promises } = place.fs
  await git.init({ fs, dir, defaultBranch: 'main' })
  await writeFiles(place)
  const before = (await git.statusMatrix({ fs, dir })).length
  await git.add({ fs, dir, filepath: '.' })
  const first = await git.commit({ fs, dir, message: 'first', author })
  const clean = await unclean(fs, dir)

  await git.branch({ fs, dir, ref: 'feature' })
  await git.checkout({ fs, dir, ref: 'feature' })
  await promises.writeFile(`${dir}/src/d1/f1.txt`, 'changed\n')
  await promises.mkdir(`${dir}/added`)
  await promises.writeFile(`${dir}/added/a.txt`, 'added\n')
  await promises.unlink(`${dir}/src/d2/f2.txt`)
  const dirty = await unclean(fs, dir)
  await git.add({ fs, dir, filepath: ['src/d1/f1.txt', 'added'] })
  await git.remove({ fs, dir, filepath: 'src/d2/f2.txt' })
  const staged = await unclean(fs, dir)
  const feature = await git.commit({ fs, dir, message: 'feature', author })

  await git.checkout({ fs, dir, ref: 'main' })
  const onMain = await exists(place, 'added/a.txt')
  await promises.writeFile(`${dir}/src/d3/f3.txt`, 'main\n')
  await git.add({ fs, dir, filepath: 'src/d3/f3.txt' })
  const main = await git.commit({ fs, dir, message: 'main', author })
  const merged = await git.merge({ fs, dir, ours: 'main', theirs: 'feature', author })
  await git.checkout({ fs, dir, ref: 'main' })

  const log = await git.log({ fs, dir })
  const trees = [git.TREE({ ref: 'main' }), git.WORKDIR(), git.STAGE()]
  const walked: unknown[] = await git.walk({ fs, dir, trees, map: describeEntry })
  return {
    before,
    clean,
    dirty,
    staged,
    onMain,
    commits: [first, feature, main, merged.oid],
    log: log.map(({ oid, commit }) => [oid, commit.message, commit.parent]),
    branches: await git.listBranches({ fs, dir }),
    files: (await git.listFiles({ fs, dir })).length,
    end: await unclean(fs, dir),
    walked: walked.length,
    unequal: walked.filter((entry) => !(entry as { equal: boolean }).equal),
    contents: [
      await promises.readFile(`${dir}/src/d1/f1.txt`, 'utf8'),
      await promises.readFile(`${dir}/src/d3/f3.txt`, 'utf8'),
      await promises.readlink(`${dir}/link`),
      ((await promises.stat(`${dir}/run.sh`)).mode & 0o111) !== 0,
      await exists(place, 'src/d2/f2.txt'),
    ],
  }
}

async function unclean(fs: FsClient, dir: string): Promise<unknown[]> {
  const rows = await git.statusMatrix({ fs, dir })
  return rows.filter(([, head, workdir, stage]) => head !== 1 || workdir !== 1 || stage !== 1)
}

async function describeEntry(
  filepath: string,
  entries: (git.WalkerEntry | null)[],
): Promise<{ filepath: string; equal: boolean } | null | undefined> {
  // Skips the files of the repository itself.
  if (filepath === '.git') return null
  const types = await Promise.all(entries.map(async (entry) => entry?.type()))
  // The index has no directories.
  if (types[0] === 'tree') return { filepath, equal: types[1] === 'tree' }
  const oids = await Promise.all(entries.map(async (entry) => entry?.oid()))
  return { filepath, equal: oids.every((oid) => oid !== undefined && oid === oids[0]) }
}

async function exists({ fs, root }: Place, name: string): Promise<boolean> {
  return fs.promises.stat(`${root}/${name}`).then(
    () => true,
    () => false,
  )
}

/** The results of native git for the repository. */
async function checkWithGit(place: Place): Promise<object> {
  const directory = await nodeFs.promises.mkdtemp(join(tmpdir(), 'compat-git-'))
  try {
    await copyOut(place, place.root, directory)
    const repository = new GitRepository(directory)
    repository.fsck()
    expect(repository.git(['status', '--porcelain'])).toBe('')
    return {
      log: repository.git(['log', '--graph', '--format=%H %s %an']).split('\n'),
      modes: repository.git(['ls-files', '-s', 'run.sh', 'link']).split('\n'),
      files: repository.git(['ls-files']).split('\n'),
    }
  } finally {
    await nodeFs.promises.rm(directory, { recursive: true })
  }
}

describe.each(Object.keys(forms).slice(0, isLong ? undefined : 1))('isomorphic-git, given %s', (form) => {
  test('works the same in a session as on the host, and as native git reads it', async () => {
    const { host, session } = await inBoth(async (place) => ({
      said: await work(place, forms[form]!(place.fs)),
      native: hasGit ? await checkWithGit(place) : undefined,
    }))
    expect(session).toEqual(host)
    expect(session.said).toMatchObject({
      before: 42,
      clean: [],
      dirty: [
        ['added/a.txt', 0, 2, 0],
        ['src/d1/f1.txt', 1, 2, 1],
        ['src/d2/f2.txt', 1, 0, 1],
      ],
      onMain: false,
      branches: ['feature', 'main'],
      files: 42,
      end: [],
      unequal: [],
      contents: ['changed\n', 'main\n', 'src/d0/f0.txt', true, false],
    })
  })
})
