import { inBackground } from './background.js'
import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { FileView } from './file-view.js'
import { Name, size } from './format.js'
import { change, place } from './route.js'
import { chosenState } from './state-choice.js'
import { Empty, Failure, useLoaded } from './states.js'
import { FileTree, marksOf, type TreeRow } from './tree.js'
import { version } from './version.js'
import { VirtualList } from './virtual-list.js'

const letters: Readonly<Record<string, string>> = { added: 'A', modified: 'M', removed: 'D', inside: '•' }

const none: readonly TreeRow[] = []

/** The file tree of a state, and the chosen file. */
export function FilesView({ id }: { readonly id: string }): VNode {
  const at = place.value.query.get('at') ?? ''
  const path = place.value.query.get('path') ?? ''
  // The newest state changes, earlier ones do not.
  const moment = at === '' ? version.value : 0
  const open = useRef(new Set<string>())
  const tree = useSignal<FileTree | undefined>(undefined)
  // A path and not an index, because files may be added above it.
  const selected = useSignal(path)
  useEffect(() => {
    const abort = new AbortController()
    const next = new FileTree(id, chosenState(), open.current, abort.signal)
    // The tree before stays until the next one can be drawn, so that nothing flickers.
    inBackground(
      next.read().then(() => {
        if (abort.signal.aborted) return
        tree.value = next
      }),
    )
    return () => abort.abort()
  }, [id, at, moment])
  const marks = useLoaded((signal) => marksOf(id, chosenState(), signal), [id, at, moment]).value
  const shownTree = tree.value
  const rows = shownTree?.rows.value ?? none
  const active = useMemo(() => rows.findIndex((row) => row.path === selected.value), [rows, selected.value])
  const sizes = shownTree?.sizes.value
  const onShow = useMemo(
    () => (first: number, end: number) => {
      inBackground(shownTree?.measure(shownTree.rows.peek().slice(first, end)))
    },
    [shownTree, rows],
  )
  const select = (index: number): void => {
    const row = rows[index]
    selected.value = row?.path ?? ''
    if (row !== undefined && row.kind !== 'directory') change({ path: row.path }, true)
  }
  const error = shownTree?.error.value
  return (
    <div class="split">
      <div class="side">
        {error !== undefined ? (
          <Failure error={error} />
        ) : shownTree !== undefined && rows.length === 0 ? (
          <Empty title="No files">This state has no files.</Empty>
        ) : (
          <VirtualList
            label="Files"
            role="tree"
            count={rows.length}
            rowHeight={24}
            active={active}
            onMove={(index) => {
              select(index)
            }}
            onOpen={(index) => {
              const row = rows[index]
              if (row?.kind === 'directory') inBackground(shownTree?.toggle(row.path))
            }}
            onKey={(key, index) => {
              const row = rows[index]
              if (row?.kind !== 'directory' || (key !== 'ArrowRight' && key !== 'ArrowLeft')) return false
              inBackground(shownTree?.toggle(row.path, key === 'ArrowRight'))
              return true
            }}
            onShow={onShow}
            rowProps={(index) => {
              const row = rows[index]
              return {
                'aria-level': row?.level ?? 1,
                ...(row?.kind === 'directory' && { 'aria-expanded': row.isOpen }),
              }
            }}
            row={(index) => {
              const row = rows[index]
              if (row === undefined) return null
              const toggle = (): void => inBackground(shownTree?.toggle(row.path))
              return (
                <TreeLine
                  row={row}
                  mark={marks?.get(row.path)}
                  bytes={sizes?.get(row.path)}
                  toggle={toggle}
                />
              )
            }}
          />
        )}
      </div>
      <div class="main">
        {path === '' ? (
          <Empty title="No file chosen">Choose a file with the arrow keys or the pointer.</Empty>
        ) : (
          <FileView key={path} id={id} path={path} moment={`${at} ${moment}`} />
        )}
      </div>
    </div>
  )
}

interface TreeLineProps {
  readonly row: TreeRow
  readonly mark: string | undefined
  readonly bytes: number | undefined
  readonly toggle: () => void
}

function TreeLine({ row, mark, bytes, toggle }: TreeLineProps): VNode {
  const isDirectory = row.kind === 'directory'
  return (
    <>
      <span style={{ width: `${(row.level - 1) * 14 + 4}px`, flex: 'none' }} />
      <span class="fold" aria-hidden="true" onClick={isDirectory ? toggle : () => undefined}>
        {isDirectory ? (row.isOpen ? '▾' : '▸') : row.kind === 'symlink' ? '↗' : ''}
      </span>
      <span class={`grow clip name ${mark ?? ''}`}>
        <Name text={row.name} />
      </span>
      {bytes !== undefined && <span class="quiet size">{size(bytes)}</span>}
      <span
        class={`letter ${mark ?? ''}`}
        aria-label={mark === undefined ? '' : mark === 'inside' ? 'changes inside' : mark}
      >
        {mark === undefined ? '' : letters[mark]}
      </span>
    </>
  )
}
