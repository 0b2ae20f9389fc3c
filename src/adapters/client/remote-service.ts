import type { Session } from '../../engine/index.js'
import {
  nothing,
  operations,
  schemas,
  type Operation,
  type OperationMethods,
  type OperationName,
  type OperationResponse,
} from '../../engine/client-contract.js'
import type { SessionCalls, SessionOperation } from './session-calls.js'

type MethodName = keyof OperationMethods

/** The part of a session at a path, for example `session.files`, or `session` itself. */
type PartOf<Path extends string> = Path extends `session.${infer Name}`
  ? Name extends keyof Session
    ? Session[Name]
    : never
  : Session

/** The operation that a method implements: `OperationOf<'session.files', 'rename'>` is `'rename'`. */
type OperationOf<Path extends string, Method> = {
  [Name in MethodName]: OperationMethods[Name] extends `${Path}.${Method & string}` ? Name : never
}[MethodName]

/** Whether the response of an operation has the same type as the result of its method in a local engine. */
type Gives<Name extends OperationName, Method> = Method extends (...given: never[]) => Promise<infer Result>
  ? [Result] extends [void]
    ? true
    : [OperationResponse<Name>] extends [Result]
      ? true
      : false
  : false

/**
 * The methods at a path that are operations, with their types and comments. A method is omitted if its result
 * in a local engine has another type.
 */
export type RemoteMethods<Path extends string> = Pick<
  PartOf<Path>,
  {
    [Method in keyof PartOf<Path>]: [OperationOf<Path, Method>] extends [never]
      ? never
      : Gives<OperationOf<Path, Method>, PartOf<Path>[Method]> extends true
        ? Method
        : never
  }[keyof PartOf<Path>]
>

let reach: (service: RemoteService) => SessionCalls

/**
 * Returns the calls of a service. They are not a property of it, because users of the handle must not have
 * access to the token.
 */
export function callsOf(service: RemoteService): SessionCalls {
  return reach(service)
}

/** A part of a session on a server. */
export class RemoteService {
  readonly #session: SessionCalls

  static {
    reach = (service) => service.#session
  }

  constructor(session: SessionCalls) {
    this.#session = session
  }
}

/**
 * Creates a class with a method for each operation that a method at the path implements. The table of
 * operations contains the names of these methods, so a new operation is included automatically. The subclass
 * itself defines the methods in `own`.
 *
 * @example
 * class RemoteSecrets extends remoteService('session.secrets', 'get') implements PublicOf<SessionSecrets> {}
 */
export function remoteService<Path extends string, Own extends keyof PartOf<Path> = never>(
  path: Path,
  ...own: Own[]
): new (session: SessionCalls) => RemoteService & Omit<RemoteMethods<Path>, Own> {
  class Service extends RemoteService {}
  for (const [name, { implementedBy = '' }] of Object.entries<Operation>(operations)) {
    const end = implementedBy.lastIndexOf('.')
    const method = implementedBy.slice(end + 1) as Own
    if (implementedBy.slice(0, end) === path && !own.includes(method))
      defineMethod(Service.prototype, method, name as SessionOperation)
  }
  return Service as never
}

function defineMethod(prototype: object, method: PropertyKey, operation: SessionOperation): void {
  const { request: requestSchema, response: responseSchema } = schemas[operation]
  Object.defineProperty(prototype, method, {
    configurable: true,
    writable: true,
    async value(this: RemoteService, request?: object): Promise<unknown> {
      // A request with only optional fields may be omitted, as for a local engine.
      const given = request === undefined && requestSchema.safeParse({ sessionId: '' }).success ? {} : request
      const response = await callsOf(this).call(operation, given as never)
      return responseSchema === nothing ? undefined : response
    },
  })
}
