import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { call, info, messageOf, needsToken, useToken } from './api.js'
import { backgroundFailure, inBackground } from './background.js'
import { GraphView } from './graph-view.js'
import { pageLimits } from './limits.js'
import { linkTo, place } from './route.js'
import { refreshSessions } from './sessions.js'
import { SessionView } from './session-view.js'
import { Empty, Failure } from './states.js'
import { StoreView } from './store-view.js'
import { isTyping } from './typing.js'
import type { PageInfo } from './wire.js'

/** The whole page. */
export function App(): VNode {
  const failure = useSignal<string | undefined>(undefined)
  const asksForToken = needsToken.value
  useEffect(() => {
    if (asksForToken) return
    call<PageInfo>('/inspector.json').then(
      (answer) => {
        info.value = answer
        failure.value = undefined
      },
      (error: unknown) => {
        failure.value = messageOf(error)
      },
    )
  }, [asksForToken])
  if (asksForToken) return <TokenForm />
  return (
    <>
      <TopBar />
      {backgroundFailure.value !== undefined && <Failure error={backgroundFailure.value} />}
      {failure.value !== undefined && info.value === undefined ? (
        <main>
          <Failure error={failure.value} />
        </main>
      ) : info.value === undefined ? null : (
        <View />
      )}
      <Help />
    </>
  )
}

/** Follows the sessions while the page is in view. */
function useSessions(): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let isOver = false
    const look = async (): Promise<void> => {
      if (document.visibilityState === 'visible') await refreshSessions()
      if (!isOver) timer = setTimeout(() => inBackground(look()), pageLimits.pollMs)
    }
    inBackground(look())
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [])
}

function View(): VNode {
  useSessions()
  const [kind, id] = place.value.parts
  if (kind === undefined) return <GraphView />
  if (kind === 'store') return <StoreView />
  if (kind === 'session' && id !== undefined) return <SessionView key={id} id={id} />
  return (
    <main>
      <h1 class="heard">Not found</h1>
      <Empty title="There is no such page">
        <a href={linkTo([])}>All sessions</a>
      </Empty>
    </main>
  )
}

function TopBar(): VNode {
  const [kind] = place.value.parts
  return (
    <nav class="top" aria-label="Inspector">
      <a class="brand" href={linkTo([])}>
        <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
          <path class="lane lane-0" d="M5 2V16M5 12C5 8 13 10 13 5" />
          <circle class="node fill lane-0" cx="5" cy="14" r="2.5" />
          <circle class="node fill lane-1" cx="13" cy="4" r="2.5" />
        </svg>
        forkspace
      </a>
      <a href={linkTo([])} aria-current={kind === undefined ? 'page' : undefined}>
        Sessions
      </a>
      <a href={linkTo(['store'])} aria-current={kind === 'store' ? 'page' : undefined}>
        Store
      </a>
      <span class="grow" />
      {info.value !== undefined && (
        <>
          <span class={info.value.write ? 'badge warn' : 'badge'}>
            {info.value.write ? 'can write' : 'read-only'}
          </span>
          <span class="quiet">{info.value.version}</span>
        </>
      )}
      <button type="button" class="plain" aria-label="Keys" onClick={showHelp}>
        ?
      </button>
    </nav>
  )
}

/** Asks for the token, which is in the URL that the command printed. */
function TokenForm(): VNode {
  return (
    <main class="token">
      <h1>forkspace inspector</h1>
      <p>This page needs the token that was printed with its URL. Open that whole URL, or enter the token.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          const input = event.currentTarget.elements.namedItem('token')
          if (input instanceof HTMLInputElement && input.value.trim() !== '') useToken(input.value)
        }}
      >
        <label>
          Token <input name="token" type="password" autocomplete="off" />
        </label>
        <button type="submit">Open</button>
      </form>
    </main>
  )
}

const keys: readonly (readonly [string, string])[] = [
  ['↑ ↓ Page Home End', 'move in a list'],
  ['→ ←', 'open and close a directory, or the events of a session'],
  ['Enter', 'open the chosen row'],
  ['/', 'search'],
  ['[ ]', 'earlier and later event'],
  ['g', 'all sessions'],
  ['?', 'this help'],
]

function showHelp(): void {
  const dialog = document.getElementById('help')
  if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal()
}

function Help(): VNode {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      if (event.key === '?') showHelp()
      else if (event.key === '/') {
        const search = document.querySelector<HTMLInputElement>('input[type=search]')
        if (search === null) return
        event.preventDefault()
        search.focus()
      } else if (event.key === 'g') location.hash = linkTo([])
      else if (event.key === '[' || event.key === ']') {
        const name = event.key === '[' ? 'Earlier event' : 'Later event'
        document.querySelector<HTMLButtonElement>(`.scrubber button[aria-label="${name}"]`)?.click()
      }
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <dialog id="help" ref={dialog} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {keys.map(([key, action]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{action}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  )
}
