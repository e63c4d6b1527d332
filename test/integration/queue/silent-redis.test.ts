import { expect, test } from 'vitest'
import { openRedisEngine } from '#shared/adapters/bullmq/redis-engine.ts'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { startTcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { haveRedis, startTestRedis } from '../../support/processes/redis-server.ts'

test.skipIf(!haveRedis())(
  'accepts messages once Redis answers again when the queue was opened while it did not',
  async () => {
    const server = await startTestRedis()
    const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: server.port })
    const address = parseQueueUrl(`redis://127.0.0.1:${proxy.port}`)
    if (address.kind === 'postgres') throw new Error('expected an address of Redis')
    const engine = await openRedisEngine(address, '{farebox}', () => undefined)
    try {
      await proxy.setFault({ kind: 'blackhole' })
      const producer = engine.createProducer('text')
      producer.on('error', () => undefined)
      const message = { jobId: '6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b' }
      await expect(producer.add('run', message)).rejects.toThrow('Command timed out')
      await proxy.setFault(null)
      await producer.add('run', message)
      expect(await server.client.llen('{farebox}:text:wait')).toBeGreaterThan(0)
      await producer.close()
    } finally {
      await engine.close()
      await proxy.stop()
      await server.stop()
    }
  },
)
