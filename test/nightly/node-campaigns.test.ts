import { expect, test } from 'vitest'
import { runRpcFaults } from '../resilience/rpc-faults.ts'
import { runRpcLies } from '../resilience/rpc-lies.ts'
import { runBatchLies } from '../resilience/rpc-lies/batch-lies.ts'

test('a node that fails at any stage costs a valid payment at most a 503: its signature is served and charged once after healing', async () => {
  const rows = await runRpcFaults()
  expect(rows.length).toBeGreaterThan(50)
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([])
})
test('a node that lies causes neither an unpaid release nor a double charge', async () => {
  const rows = await runRpcLies({ quick: true })
  expect(rows.length).toBeGreaterThan(10)
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([])
})
test('a node that lies about a batch loses and doubles no charge, and releases no result without its proof', async () => {
  const rows = await runBatchLies({ quick: true })
  expect(rows.length).toBeGreaterThan(10)
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([])
})
