// Bundles each entry point of package.json into `dist`. tsc adds the declarations afterwards.
//
// With bundles, `import 'forkspace'` loads 13 files instead of 270, in a fifth of the time. Dependencies stay imports.
import { chmod, copyFile, readFile } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import { build } from 'rolldown'

const { bin, exports } = JSON.parse(await readFile('package.json', 'utf8'))
const files = [...Object.values(bin), ...Object.values(exports).map((entry) => entry.default ?? entry)]
const names = files
  .map((file) => /^(?:\.\/)?dist\/(?<name>.*)\.js$/.exec(file)?.groups.name)
  .filter((name) => name !== undefined)

await build({
  input: Object.fromEntries(names.map((name) => [name, `src/${name}.ts`])),
  // The compiler's helper for `using` is not a dependency, so it is bundled.
  external: (id) => !id.startsWith('.') && !isAbsolute(id) && !id.startsWith('@oxc-project/runtime'),
  platform: 'node',
  transform: { target: 'node20.19' },
  output: {
    dir: 'dist',
    cleanDir: true,
    chunkFileNames: 'chunks/[name]-[hash].js',
    sourcemap: true,
    sourcemapExcludeSources: true,
  },
})
await copyFile('src/adapters/http/openapi.json', 'dist/adapters/http/openapi.json')
await chmod('dist/adapters/cli/main.js', 0o755)
