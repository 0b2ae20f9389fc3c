import { useSignal } from '@preact/signals'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { messageOf } from './api.js'

/** What a place shows that has nothing to show. */
export function Empty({
  title,
  children,
}: {
  readonly title: string
  readonly children?: ComponentChildren
}): VNode {
  return (
    <div class="empty">
      <p class="strong">{title}</p>
      <p class="quiet">{children}</p>
    </div>
  )
}

/** An error, in words. */
export function Failure({ error }: { readonly error: string }): VNode {
  return (
    <p class="failure" role="alert">
      <bdi>{error}</bdi>
    </p>
  )
}

/** A value that is being read. */
export interface Loaded<Value> {
  readonly value: Value | undefined
  readonly error: string | undefined
  readonly isLoading: boolean
}

/** Reads a value, and again when a dependency changes. The value before stays until then. */
export function useLoaded<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  dependencies: readonly unknown[],
): Loaded<Value> {
  const state = useSignal<Loaded<Value>>({ value: undefined, error: undefined, isLoading: true })
  useEffect(() => {
    const abort = new AbortController()
    state.value = { ...state.peek(), isLoading: true }
    read(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) state.value = { value, error: undefined, isLoading: false }
      },
      (error: unknown) => {
        if (!abort.signal.aborted)
          state.value = { value: undefined, error: messageOf(error), isLoading: false }
      },
    )
    return () => abort.abort()
  }, dependencies)
  return state.value
}

/** Shows a value that is being read, or why it could not be read. */
export function Show<Value>({
  loaded,
  children,
}: {
  readonly loaded: Loaded<Value>
  readonly children: (value: Value) => ComponentChildren
}): VNode {
  if (loaded.error !== undefined) return <Failure error={loaded.error} />
  if (loaded.value === undefined)
    return (
      <p class="loading quiet" role="status">
        Loading …
      </p>
    )
  return <>{children(loaded.value)}</>
}
