import { gzipSync } from 'node:zlib'
import type { Engine, ImportJob } from '../../src/index.js'
import { tarOf } from '../support/raw-archives.js'
import { stalledRemotes } from './stalled-remotes.js'
import { stalledStreams } from './stalled-streams.js'

/** A source that never delivers all requested data. */
export interface StalledJob {
  readonly name: string
  /** Whether only an outside event ends the job; otherwise it fails by itself. */
  readonly endless: boolean
  /** Whether the job waits for a transfer, which has a minimum rate. */
  readonly sends: boolean
  /** The possible outcomes if nothing ends the job in time: `success`, or an error code. */
  readonly endings?: readonly string[]
  /** Starts the import of a new source. */
  start(engine: Engine): Promise<ImportJob>
}

/**
 * Every kind of source with every kind of stall. `urlOf` returns the address of a remote; `directories` holds paths by
 * the names of their stalls.
 */
export function stalledJobs(
  urlOf: (name: string) => string,
  directories: Readonly<Record<string, string>> = {},
): StalledJob[] {
  const uploads = Object.entries(contents).flatMap(([kind, content]) =>
    Object.entries(stalledStreams).map(([stall, stream]): StalledJob => ({
      name: `${kind}: ${stall}`,
      endless: true,
      sends: true,
      async start(engine) {
        const isBundle = kind === 'bundle'
        const { sourceId } = await engine.sources.create({
          displayName: kind,
          ...(isBundle ? { uploadedGitBundle: {} } : { uploadedSnapshot: {} }),
        })
        const upload = { content: stream(content) }
        return engine.sources.startImport(
          sourceId,
          isBundle ? { uploadedGitBundle: upload } : { uploadedSnapshot: upload },
        )
      },
    })),
  )
  const remotes = [...Object.keys(stalledRemotes), noCredentials].map((stall): StalledJob => ({
    name: `remote: ${stall}`,
    endless: !stall.startsWith('redirects'),
    sends: stall !== noCredentials,
    async start(engine) {
      const { sourceId } = await engine.sources.create({
        displayName: 'remote',
        gitRemote: {
          remoteUrl: urlOf(stall),
          defaultRef: 'main',
          ...(stall === noCredentials && { credentialsSecretId: 'x' }),
        },
      })
      return engine.sources.startImport(sourceId)
    },
  }))
  const hostPaths = Object.entries(directories).map(([stall, path]): StalledJob => ({
    name: `directory: ${stall}`,
    endless: false,
    sends: false,
    endings: ['success', 'HOST_PATH_NOT_ALLOWED'],
    async start(engine) {
      const { sourceId } = await engine.sources.create({ displayName: 'directory', hostPath: { path } })
      return engine.sources.startImport(sourceId, {})
    },
  }))
  return [...uploads, ...remotes, ...hostPaths]
}

const noCredentials = 'credentials that never come'

/** The engine options that {@link stalledJobs} needs. */
export const stalledOptions = {
  git: {
    allowPrivateAddresses: true,
    credentials: (): Promise<never> => new Promise(() => undefined),
  },
}

const tar = tarOf(
  ...Array.from({ length: 20 }, (_, i) => ({ name: `f${i}`, content: Buffer.alloc(50_000, i) })),
)

const contents: Readonly<Record<string, Uint8Array>> = {
  tar,
  'tar.gz': gzipSync(tar),
  zip: Buffer.concat([Buffer.from('PK\x03\x04'), Buffer.alloc(100_000)]),
  bundle: Buffer.concat([
    Buffer.from(`# v2 git bundle\n${'a'.repeat(40)} refs/heads/main\n\nPACK`),
    Buffer.alloc(100_000),
  ]),
}
