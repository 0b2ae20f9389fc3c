import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { flushPacket, packet } from '../../src/adapters/git/remote/pkt-line.js'

export interface RawRemote extends AsyncDisposable {
  readonly url: string
  /** The `have` ids that each fetch sent, in order. */
  readonly haves: readonly (readonly string[])[]
  /** Points `main` at this commit and answers every later fetch with the pack. */
  serve(commit: string, pack: Uint8Array): void
}

/** A protocol 2 remote with only the branch `main`, which sends raw packs whether requested or not. */
export async function openRawRemote(): Promise<RawRemote> {
  let main = ''
  let pack: Uint8Array = Buffer.alloc(0)
  const haves: string[][] = []
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const asked = (await buffer(request)).toString('latin1')
      if (request.method === 'GET') {
        response.setHeader('content-type', 'application/x-git-upload-pack-advertisement')
        response.end(
          Buffer.concat([...['version 2\n', 'ls-refs\n', 'fetch=shallow\n'].map(packet), flushPacket]),
        )
        return
      }
      response.setHeader('content-type', 'application/x-git-upload-pack-result')
      if (asked.includes('command=ls-refs')) {
        const head = `${main} HEAD symref-target:refs/heads/main\n`
        response.end(Buffer.concat([packet(head), packet(`${main} refs/heads/main\n`), flushPacket]))
        return
      }
      haves.push(Array.from(asked.matchAll(/have ([0-9a-f]+)\n/g), ([, oid]) => oid!))
      response.write(packet('packfile\n'))
      for (let at = 0; at < pack.length; at += bandBytes) {
        const part = pack.subarray(at, at + bandBytes)
        response.write(
          Buffer.concat([Buffer.from((part.length + 5).toString(16).padStart(4, '0')), Buffer.of(1), part]),
        )
      }
      response.end(flushPacket)
    }
    answer().catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/r.git`,
    haves,
    serve(commit, sent) {
      main = commit
      pack = sent
    },
    [Symbol.asyncDispose]() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

const bandBytes = 65_000
