import { checked } from './checked.js'
import {
  unknownName,
  type ContentParameters,
  type OperationName,
  type OperationRequest,
  type OperationResponse,
} from '../../engine/client-contract.js'
import type { CallOptions, Given, Transport } from './transport.js'

/** Operations on one session. */
export type SessionOperation = {
  [Name in OperationName]: OperationRequest<Name> extends { readonly sessionId: string } ? Name : never
}[OperationName]

/** The request of an operation without the session's id. */
export type InSession<Name extends OperationName> = Given<Omit<OperationRequest<Name>, 'sessionId'>>

/** Calls the operations on one session. */
export class SessionCalls {
  readonly sessionId: string
  readonly transport: Transport

  constructor(transport: Transport, sessionId: string) {
    this.transport = transport
    this.sessionId = sessionId
  }

  async call<Name extends SessionOperation>(
    name: Name,
    request: InSession<Name>,
    options?: CallOptions,
  ): Promise<OperationResponse<Name>> {
    const { sessionId } = this
    const given = checked(request) as { readonly sessionId?: unknown }
    // The schema has a field `sessionId`, but a caller's request must not have it.
    if (given.sessionId !== undefined) throw unknownName('', 'sessionId', new Set())
    return this.transport.call(name, { ...given, sessionId } as never, options)
  }

  /** Like {@link call}, for an operation without a result. */
  async run<Name extends SessionOperation>(
    name: Name,
    request: InSession<Name>,
    options?: CallOptions,
  ): Promise<void> {
    await this.call(name, request, options)
  }

  /** Writes a file through its content route. */
  async send(
    parameters: Given<Omit<ContentParameters<'writeContent'>, 'sessionId'>>,
    content: Uint8Array | AsyncIterable<Uint8Array>,
  ): Promise<void> {
    await this.transport.send('writeContent', { ...parameters, sessionId: this.sessionId }, content)
  }

  /** Reads a file through its content route. */
  receive(
    parameters: Given<Omit<ContentParameters<'readContent'>, 'sessionId'>>,
  ): ReturnType<Transport['receive']> {
    return this.transport.receive({ ...parameters, sessionId: this.sessionId })
  }
}
