import type { FastifyInstance } from 'fastify'

/** The columns by which a level of the printed tree is indented. */
const INDENT = 4

/** Returns every route of an application, one for each method. */
export function routesOf(app: FastifyInstance): { readonly method: string; readonly path: string }[] {
  const parts: string[] = []
  return app
    .printRoutes({ includeHooks: false })
    .split('\n')
    .flatMap((line) => {
      const [, indent = '', part, methods] = /^([^─]*[└├]── )(.*?)(?: \(([A-Z, ]+)\))?$/.exec(line) ?? []
      if (part === undefined) return []
      parts.splice(indent.length / INDENT - 1, Number.POSITIVE_INFINITY, part)
      const path = parts.join('')
      return methods === undefined ? [] : methods.split(', ').map((method) => ({ method, path }))
    })
}
