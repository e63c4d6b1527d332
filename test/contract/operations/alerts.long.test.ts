import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { ALERT_TESTS } from '../../support/deployment/operator-files.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const files = await readdir(ALERT_TESTS)

describe.skipIf(!havePrograms('promtool'))('promtool', () => {
  test.each(files)('the alert rules fire and stay silent as alerts/%s expects', async (name) => {
    const run = promisify(execFile)('promtool', ['test', 'rules', name], { cwd: fileURLToPath(ALERT_TESTS) })
    // promtool prints which expectation failed.
    const output = await run.catch((error: { stdout: string; stderr: string }) => error)
    expect(output.stdout + output.stderr).not.toContain('FAILED')
    await run
  })
})
