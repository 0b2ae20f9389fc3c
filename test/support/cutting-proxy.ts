import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** Forwards connections to a server until they are cut. */
export class CuttingProxy {
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((socket) => this.#accept(socket))
  readonly #port: number
  connections = 0
  refusing = false

  constructor(port: number) {
    this.#port = port
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    this.cut()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #accept(socket: Socket): void {
    this.connections++
    if (this.refusing) {
      socket.destroy()
      return
    }
    const onward = connect(this.#port, '127.0.0.1')
    for (const one of [socket, onward]) {
      this.#sockets.add(one)
      one.on('error', () => undefined)
      one.on('close', () => {
        this.#sockets.delete(one)
        socket.destroy()
        onward.destroy()
      })
    }
    socket.pipe(onward)
    onward.pipe(socket)
  }
}
