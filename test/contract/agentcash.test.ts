import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { operations } from '#shared/operations/registry.ts'
import { type SharedSandbox, useSharedSandbox } from '../support/processes/test-sandbox.ts'

const CHECKER = fileURLToPath(new URL('../../node_modules/@agentcash/discovery/bin/discovery.js', import.meta.url))

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

/** Runs the checker and returns its output; throws when it fails. */
async function check(...options: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [CHECKER, sandbox.info.baseUrl, '-v', ...options])
  return stdout
}

it('the listing services’ checker finds every paid endpoint of a running origin without warnings', async () => {
  const report = JSON.parse(await check('--json')) as {
    ok: boolean
    warnings: unknown[]
    resources: { authHint?: string }[]
  }
  expect({ ok: report.ok, warnings: report.warnings }).toEqual({ ok: true, warnings: [] })
  expect(report.resources.filter(({ authHint }) => authHint === 'paid')).toHaveLength(operations.length)
})

it('the listing services’ checker prints the endpoints without warnings', async () => {
  const output = await check()
  for (const { path } of operations) expect(output).toContain(path)
  expect(output).not.toMatch(/^\s*(?:warn|error|✗|⚠|!)/imu)
})

it('the listing services’ checker causes no provider call and no job', async () => {
  expect(await sandbox.upstreamCalls()).toEqual([])
  expect(await sandbox.added('jobs')).toBe(0)
})
