import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { s3Blobs, type BlobBucket } from '../../src/adapters/s3/index.js'
import { s3ClientOf } from '../support/s3-server.js'
import type { BucketArguments } from './protocol.js'

export interface S3ProcessArguments {
  readonly directory: string
  readonly bucket: string
  /** 0: any. */
  readonly port: number
}

const bucket = 'contents'

/** Small enough that most contents of a workload are objects. */
const minBytes = 100

/** A bucket on a server in a process of its own, which can be killed. */
export class KilledBucket {
  readonly #directory: string
  #child: ChildProcess | undefined
  #port = 0

  /** The server keeps its objects in the directory. */
  static async start(directory: string): Promise<KilledBucket> {
    await mkdir(directory)
    const started = new KilledBucket(directory)
    await started.start()
    return started
  }

  private constructor(directory: string) {
    this.#directory = directory
  }

  /** Starts the server again, on the same port. */
  async start(): Promise<void> {
    const settings: S3ProcessArguments = { directory: this.#directory, bucket, port: this.#port }
    const file = fileURLToPath(new URL('s3-process.js', import.meta.url))
    const child = spawn(execPath, ['--enable-source-maps', file, JSON.stringify(settings)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child = child
    if (child.stdout === null) throw new Error('the server has no output')
    for await (const line of createInterface({ input: child.stdout })) {
      this.#port = Number(line)
      return
    }
    throw new Error('the server of S3 did not start')
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Lets all objects be two days old. */
  async age(): Promise<void> {
    const time = Date.now() / 1000 - 2 * 86_400
    const files = await readdir(join(this.#directory, bucket))
    for (const file of files) await utimes(join(this.#directory, bucket, file), time, time)
  }

  /** The number of objects. */
  async count(): Promise<number> {
    return (await readdir(join(this.#directory, bucket))).length
  }

  /** The part of the bucket that a store uses. */
  settings(prefix: string): BucketArguments {
    return { port: this.#port, prefix: `${prefix}/` }
  }
}

export function blobsOf({ port, prefix }: BucketArguments): BlobBucket {
  return s3Blobs({ client: s3ClientOf(port), bucket, prefix, minBytes })
}
