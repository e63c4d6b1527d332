import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fastifyStatic } from '@fastify/static'
import type { FastifyInstance } from 'fastify'

const OWN = fileURLToPath(new URL('../assets', import.meta.url))
const folderOf = (module: string) => dirname(fileURLToPath(import.meta.resolve(module)))

/** The files that pages load, by name; everything comes from this origin. */
const ASSETS: Readonly<Record<string, string>> = {
  'console.css': OWN,
  'console.js': OWN,
  'charts.js': OWN,
  'icon.svg': OWN,
  'htmx.min.js': folderOf('htmx.org/dist/htmx.min.js'),
  'uPlot.iife.min.js': folderOf('uplot/dist/uPlot.iife.min.js'),
  'uPlot.min.css': folderOf('uplot/dist/uPlot.min.css'),
}

/** Adds the scripts, styles and images of the pages. Browsers ask each time whether a file has changed. */
export async function addAssets(app: FastifyInstance): Promise<void> {
  await app.register(fastifyStatic, { root: OWN, serve: false, cacheControl: false })
  for (const [name, folder] of Object.entries(ASSETS))
    app.get(`/operator/assets/${name}`, { config: { isPublic: true } }, async (_request, reply) =>
      reply.header('cache-control', 'no-cache').sendFile(name, folder),
    )
}
