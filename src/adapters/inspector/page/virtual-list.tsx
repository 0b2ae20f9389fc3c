import { useSignal } from '@preact/signals'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

interface VirtualListProps {
  readonly label: string
  readonly count: number
  readonly rowHeight: number
  /** The selected row, which the arrow keys move; none if it is negative. */
  readonly active?: number
  readonly role?: 'listbox' | 'tree' | 'document'
  readonly class?: string
  readonly row: (index: number) => ComponentChildren
  /** Attributes of the element of a row, such as its level in a tree. */
  readonly rowProps?: (index: number) => Readonly<Record<string, string | number | boolean>>
  readonly onMove?: (index: number) => void
  /** Enter, or a double click. */
  readonly onOpen?: (index: number) => void
  /** Other keys; true if it was used. */
  readonly onKey?: (key: string, index: number) => boolean
  /** The rows that are drawn. */
  readonly onShow?: (first: number, end: number) => void
}

const spareRows = 12
let lists = 0

/** A list that draws only the rows in view, so its length costs nothing. */
export function VirtualList(props: VirtualListProps): VNode {
  const { label, count, rowHeight, active = -1, role = 'listbox' } = props
  const box = useRef<HTMLDivElement>(null)
  const id = useRef('')
  if (id.current === '') id.current = `list-${++lists}`
  const first = useSignal(0)
  const height = useSignal(600)
  const measure = (): void => {
    if (box.current === null) return
    first.value = Math.max(0, Math.floor(box.current.scrollTop / rowHeight) - spareRows)
    height.value = box.current.clientHeight
  }
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return undefined
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  useLayoutEffect(() => {
    const element = box.current
    if (element === null || active < 0) return
    const top = active * rowHeight
    if (top < element.scrollTop) element.scrollTop = top
    else if (top + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = top + rowHeight - element.clientHeight
  }, [active, rowHeight])
  const start = Math.min(first.value, Math.max(0, count - 1))
  const end = Math.min(count, start + Math.ceil(height.value / rowHeight) + 2 * spareRows)
  const { onShow } = props
  useEffect(() => onShow?.(start, end), [start, end, onShow])

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== box.current) return
    const page = Math.max(1, Math.floor(height.value / rowHeight) - 1)
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: count - 1,
    }
    const to = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined
    let isUsed = true
    if (to !== undefined && props.onMove !== undefined && count > 0)
      props.onMove(Math.min(count - 1, Math.max(0, to)))
    else if (event.key === 'Enter' && active >= 0 && props.onOpen !== undefined) props.onOpen(active)
    else isUsed = props.onKey?.(event.key, active) === true
    if (isUsed) event.preventDefault()
  }

  const itemRole = role === 'tree' ? 'treeitem' : role === 'listbox' ? 'option' : undefined
  const rows: VNode[] = []
  for (let index = start; index < end; index++) {
    const isActive = index === active
    rows.push(
      <div
        key={index}
        id={`${id.current}-${index}`}
        {...(itemRole !== undefined && {
          role: itemRole,
          'aria-selected': isActive,
          'aria-setsize': count,
          'aria-posinset': index + 1,
        })}
        {...props.rowProps?.(index)}
        class={isActive ? 'row active' : 'row'}
        style={{ height: `${rowHeight}px` }}
        {...(props.onMove !== undefined && { onClick: () => props.onMove?.(index) })}
        {...(props.onOpen !== undefined && { onDblClick: () => props.onOpen?.(index) })}
      >
        {props.row(index)}
      </div>,
    )
  }
  return (
    <div
      ref={box}
      class={`list ${props.class ?? ''}`}
      tabIndex={0}
      role={role}
      aria-label={label}
      {...(active >= start &&
        active < end &&
        itemRole !== undefined && {
          'aria-activedescendant': `${id.current}-${active}`,
        })}
      onScroll={measure}
      onKeyDown={onKeyDown}
    >
      <div class="spacer" role="presentation" style={{ height: `${count * rowHeight}px` }}>
        <div class="window" role="presentation" style={{ transform: `translateY(${start * rowHeight}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  )
}
