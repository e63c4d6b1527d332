import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import multipart from '@fastify/multipart'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { UNLIMITED_ARRIVAL } from '../../../api/request/body-bytes.ts'
import { readMultipart } from '../../../api/request/multipart.ts'
import { composeApp } from './compose-app.ts'

const BODY_LIMIT = 100_000
const { upload } = transcriptions
if (!upload) throw new Error('transcriptions take an upload')

let app: FastifyInstance
let port: number
beforeAll(async () => {
  app = await composeApp(async (composed) => {
    await composed.register(multipart)
    composed.post('/form', { bodyLimit: BODY_LIMIT }, (request) => readMultipart(request, upload, UNLIMITED_ARRIVAL))
  })
  port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
})
afterAll(() => app.close())

/** Sends a form without a part until it is answered, then `chunks` more chunks, without reading the response. */
async function sendWithoutReading(chunks: number): Promise<Socket> {
  let response: ServerResponse | undefined
  app.server.once('request', (_, serverResponse: ServerResponse) => {
    response = serverResponse
  })
  const socket = connect(port, '127.0.0.1')
  socket.pause()
  await once(socket, 'connect')
  const head = [
    'POST /form HTTP/1.1',
    'host: test',
    'content-type: multipart/form-data; boundary=b',
    'transfer-encoding: chunked',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  const chunk = Buffer.concat([Buffer.from('2710\r\n'), Buffer.alloc(10_000, 'p'), Buffer.from('\r\n')])
  for (let sent = 0; sent < chunks; sent += response?.headersSent ? 1 : 0) {
    if (!socket.write(chunk)) await Promise.race([once(socket, 'drain'), once(socket, 'error')])
    await nextTurn()
  }
  return socket
}

it('a caller who keeps sending after their oversized form was rejected can still read the 413', async () => {
  const socket = await sendWithoutReading(50)
  socket.end('0\r\n\r\n')
  const answer = await text(socket)
  expect(answer).toMatch(/^HTTP\/1\.1 413 /)
  expect(answer).toContain('"code":"body_too_large"')
})
