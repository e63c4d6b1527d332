import { expect, test } from 'vitest'
import { runRpcFaults } from './rpc-faults.ts'
import { runRpcLies } from './rpc-lies.ts'

test('a node that fails at any stage costs a good payment a 503 at most: after healing the same signature is served and charged once', async () => {
  const rows = await runRpcFaults()
  expect(rows.length).toBeGreaterThan(50)
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([])
})

test('a node that lies about a call releases nothing unpaid and charges nothing twice', async () => {
  const rows = await runRpcLies({ quick: true })
  expect(rows.length).toBeGreaterThan(10)
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([])
})
