import fastify from 'fastify'
import { z } from 'zod'

/** Serves the given bytes at one path, which shows the throughput of Fastify itself on this machine. */
const { PORT, ANSWER } = z
  .object({
    PORT: z.coerce.number(),
    ANSWER: z
      .string()
      .transform((text) => JSON.parse(text) as unknown)
      .pipe(z.object({ path: z.string(), contentType: z.string(), body: z.string() })),
  })
  .parse(process.env)

const body = Buffer.from(ANSWER.body)
const app = fastify({ logger: false })
app.get(ANSWER.path, (_, reply) => reply.header('content-type', ANSWER.contentType).send(body))
await app.listen({ port: PORT, host: '127.0.0.1' })
console.log('listening')
