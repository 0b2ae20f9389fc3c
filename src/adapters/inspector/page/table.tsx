import type { ComponentChildren, VNode } from 'preact'

interface TableProps {
  readonly title: string
  readonly heads: readonly string[]
  readonly rows: readonly (readonly ComponentChildren[])[]
  /** Said when there are no rows. */
  readonly none: string
}

/** A short table. Long listings use a virtual list. */
export function Table({ title, heads, rows, none }: TableProps): VNode {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {rows.length === 0 ? (
        <p class="quiet">{none}</p>
      ) : (
        <table aria-label={title}>
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((cells, row) => (
              <tr key={row}>
                {cells.map((cell, column) => (
                  <td key={column}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

/** Figures with their names. */
export function Figures({
  title,
  figures,
}: {
  readonly title: string
  readonly figures: readonly (readonly [string, ComponentChildren])[]
}): VNode {
  return (
    <section class="panel">
      <h2>{title}</h2>
      <dl class="figures">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

interface Bar {
  readonly name: string
  readonly value: number
  readonly kind?: string
}

/** Values as bars of their share of the largest one. */
export function Bars({ title, bars }: { readonly title: string; readonly bars: readonly Bar[] }): VNode {
  const most = Math.max(1, ...bars.map(({ value }) => value))
  return (
    <section class="panel">
      <h2>{title}</h2>
      <ul class="bars">
        {bars.map(({ name, value, kind = 'other' }) => (
          <li key={name}>
            <span class="clip">{name}</span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect class={`bar-fill ${kind}`} width={(value / most) * 100} height="10" />
            </svg>
            <span class="quiet">{value.toLocaleString('en')}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}
