import { existsSync, readFileSync } from 'node:fs'
import { posix, resolve } from 'node:path'
import { defineConfig, type DefaultTheme } from 'vitepress'

const repository = 'https://github.com/forkspace/forkspace'
const docs = resolve(import.meta.dirname, '..')

/** Pages by their paths, each under the title of its first heading. */
const pages = (...paths: string[]): DefaultTheme.SidebarItem[] =>
  paths.map((path) => ({
    text: /^# (.*)$/m.exec(readFileSync(resolve(docs, `${path}.md`), 'utf8'))?.[1] ?? path,
    link: `/${path}`,
  }))

/** The generated reference, by entry point. */
function reference(): DefaultTheme.SidebarItem[] {
  const file = resolve(docs, 'api/typedoc-sidebar.json')
  if (!existsSync(file)) throw new Error('docs/api is missing: run `npm run docs`, which makes it first')
  return JSON.parse(readFileSync(file, 'utf8')) as DefaultTheme.SidebarItem[]
}

export default defineConfig({
  title: 'forkspace',
  description: 'Versioned, isolated workspaces as plain method calls, in your own Node process.',
  cleanUrls: true,
  lastUpdated: false,
  themeConfig: {
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    nav: [
      { text: 'Guide', link: '/' },
      { text: 'API', link: '/api/' },
    ],
    sidebar: {
      '/api/': reference(),
      '/': [
        { text: 'Start', items: pages('getting-started', 'concepts', 'faq', 'glossary', 'comparison') },
        {
          text: 'Guides',
          items: pages(
            'guides/agent-runtimes',
            'guides/tools',
            'guides/just-bash',
            'guides/ai-sdk',
            'guides/openai-agents',
            'guides/claude',
            'guides/tanstack',
            'guides/deepagents',
            'guides/mastra',
            'guides/mcp',
            'guides/tests',
            'guides/desktop-tools',
            'bundling',
          ),
        },
        {
          text: 'Workspaces',
          items: pages(
            'storage',
            'postgres',
            'sessions',
            'sources',
            'files',
            'text',
            'node-fs',
            'history',
            'diff',
            'time-travel',
            'merge',
            'commits',
            'exports',
            'mounts',
          ),
        },
        { text: 'Collaboration', items: pages('locks', 'bus', 'review', 'cache', 'health', 'secrets') },
        { text: 'Access', items: pages('permissions', 'http', 'git-server', 'cli', 'inspector', 'security') },
        { text: 'Operation', items: pages('durability', 'collection', 'recovery', 'usage', 'performance') },
        { text: 'Reference', items: pages('options', 'errors', 'limits', 'storage-format') },
        {
          text: 'Contributing',
          items: pages(
            'adding-an-operation',
            'decisions/git',
            'decisions/segment-log',
            'decisions/glob',
            'decisions/wire-schemas',
            'decisions/runtime-dependencies',
          ),
          collapsed: true,
        },
      ],
    },
  },
  // The search index of the API reference is larger than Vite expects of a chunk.
  vite: { build: { chunkSizeWarningLimit: 4_000 } },
  markdown: {
    // Pages link to sources by relative paths, as in a checkout. The site has no sources: there such a link leads to
    // the repository.
    config: (markdown) => {
      markdown.core.ruler.push('source-links', ({ tokens, env }) => {
        const page = (env as { readonly relativePath: string }).relativePath
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const target = token.attrGet('href')
          if (token.type !== 'link_open' || target === null || !target.startsWith('.')) continue
          const path = posix.join('docs', posix.dirname(page), target)
          if (!path.startsWith('docs/')) token.attrSet('href', `${repository}/blob/main/${path}`)
        }
      })
    },
  },
})
