import type { FastifyInstance } from 'fastify'

/** `GET /healthz`: this process answers. It says nothing about dependencies. */
export function addHealthRoutes(app: FastifyInstance): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
}
