import type * as z from 'zod'
import type { ContentRouteName } from '../content-routes.js'
import { fileSchemas } from './files.js'
import { sourceSchemas } from './sources.js'

/** The path parameters and query of each content route, as one object. */
export const contentSchemas = {
  writeContent: fileSchemas.writeFile.request.omit({ content: true }),
  readContent: fileSchemas.readFile.request,
  uploadSnapshot: sourceSchemas.getSource.request,
  uploadGitBundle: sourceSchemas.refreshSource.request,
} as const satisfies Readonly<Record<ContentRouteName, z.ZodType<object>>>

export type ContentParameters<Name extends ContentRouteName> = z.output<(typeof contentSchemas)[Name]>
