/** The methods of a backend that change files, and those that move whole files in and out. */
import { Buffer } from 'node:buffer'
import type { BackendProtocolV2, EditResult, FileOperationError } from 'deepagents'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid, isBytes, untilAborted } from '../../engine/ports.js'
import { editFile, writeFile, type Workspace } from '../tools/parts.js'
import { limits } from './limits.js'
import { binaryTypeOf } from './media-type.js'
import { currentCall, type CurrentCall } from './call.js'
import { answer, handleFor, pathOf, type BackendScope } from './scope.js'

type Changes = Required<
  Pick<BackendProtocolV2, 'write' | 'edit' | 'delete' | 'uploadFiles' | 'downloadFiles'>
>

export function changeMethods(scope: BackendScope): Changes {
  const { workspace } = scope
  return {
    write: (path, content) =>
      answer(scope, async (call) => {
        const at = pathOf(path)
        const session = handleFor(scope, call)
        const metadata = await writeFile(workspace, { session }, { path: at, text: contentOf(at, content) })
        return { path, filesUpdate: null, metadata }
      }),

    edit: (path, oldText, newText, replaceAll) =>
      answer(scope, async (call) => {
        const edit = { path: pathOf(path), oldText, newText, all: replaceAll ?? false }
        const session = handleFor(scope, call)
        if (oldText === '') return { path, ...(await fillEmpty(workspace, session, edit)) }
        const { data = {} } = await editFile(workspace, { session }, edit)
        const { replacementCount, ...metadata } = data
        return { path, filesUpdate: null, occurrences: Number(replacementCount), metadata }
      }),

    delete: (path) =>
      answer(scope, async (call) => {
        const at = pathOf(path)
        const session = handleFor(scope, call)
        const { kind } = await session.files.stat({ path: at, followSymlinks: false })
        if (kind === 'directory') await session.files.removeDirectory({ path: at, recursive: true })
        else await session.files.delete({ path: at, ...(kind === 'file' && workspace.guard(at)) })
        workspace.forget(at)
        return { path, filesUpdate: null }
      }),

    uploadFiles: async (files) => {
      const checked = listOf('files', files).map((file) => {
        const [path, content] = Array.isArray(file) ? file : []
        if (!isBytes(content)) throw invalid('files', 'must be pairs of a path and a Uint8Array')
        return { path: path as string, content }
      })
      const responses = []
      for (const { path, content } of checked) {
        const { error } = await transfer((call) =>
          handleFor(scope, call).files.write({ path: pathOf(path), content }),
        )
        responses.push({ path, error })
      }
      return responses
    },

    downloadFiles: async (paths) => {
      const responses = []
      for (const path of listOf('paths', paths)) {
        const { error, value = null } = await transfer(({ signal }) =>
          untilAborted(workspace.current.files.read({ path: pathOf(path) }), signal),
        )
        responses.push({ path, content: value, error })
      }
      return responses
    },
  }
}

/** The content of a write. The protocol passes a binary file as base64. */
function contentOf(path: string, content: unknown): string | Uint8Array {
  if (typeof content !== 'string') throw invalid('content', `must be a text; it is ${given(content)}`)
  const type = binaryTypeOf(path)
  if (type === undefined) return content
  const base64 = content.replace(/^\s*data:[^,]*,/, '').replace(/\s/g, '')
  if (!isBase64(base64))
    throw invalid('content', `must be base64, because the extension of ${path} is that of ${type}`)
  return Buffer.from(base64, 'base64')
}

function isBase64(text: string): boolean {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.replace(/=+$/, '').length % 4 !== 1
}

/** An edit without an old text gives an empty file its content, as the protocol has it. */
async function fillEmpty(
  workspace: Workspace,
  session: SessionApi,
  { path, newText }: { readonly path: string; readonly newText: string },
): Promise<EditResult> {
  const { contentHash, sizeBytes } = await session.files.readWithHash({ path, length: 0 })
  if (sizeBytes > 0) throw invalid('oldString', `must not be empty: ${path} has ${sizeBytes} bytes`)
  if (typeof newText !== 'string') throw invalid('newString', `must be a text; it is ${given(newText)}`)
  workspace.see(path, contentHash)
  const metadata = await writeFile(workspace, { session }, { path, text: newText })
  return { filesUpdate: null, occurrences: 0, metadata }
}

/** The errors of the protocol for one file, by the reasons of the session. All others are thrown. */
const fileErrors: Readonly<Record<string, FileOperationError>> = {
  PATH_NOT_FOUND: 'file_not_found',
  IS_A_DIRECTORY: 'is_directory',
  PERMISSION_DENIED: 'permission_denied',
  INVALID_ARGUMENT: 'invalid_path',
  NAME_TOO_LONG: 'invalid_path',
  NOT_A_DIRECTORY: 'invalid_path',
  SYMLINK_LOOP: 'invalid_path',
}

/** Moves one file in or out. Its error does not keep the others back. */
async function transfer<T>(
  work: (call: CurrentCall) => Promise<T>,
): Promise<{ readonly error: FileOperationError | null; readonly value?: T }> {
  const call = currentCall()
  call.signal?.throwIfAborted()
  try {
    return { error: null, value: await work(call) }
  } catch (error) {
    call.signal?.throwIfAborted()
    const known = error instanceof EngineError ? fileErrors[error.reason] : undefined
    if (known === undefined) throw error
    return { error: known }
  }
}

function listOf<T>(field: string, list: readonly T[]): readonly T[] {
  if (!Array.isArray(list)) throw invalid(field, `must be an array; it is ${given(list)}`)
  if (list.length <= limits.files) return list
  throw new EngineError('TOO_LARGE', `${field} has ${list.length} files, over ${limits.files}: pass fewer`, {
    limit: String(limits.files),
  })
}
