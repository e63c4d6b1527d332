import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type HttpBridge, startHttpBridge } from '../../support/mcp/http-bridge.ts'
import { serverCommand, serverEnvironment } from '../../support/mcp/local-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

/*
 * The protocol's own conformance suite, which knows the revisions of 2025; the official client's tests cover 2026-07-28.
 * Most of its scenarios call tools, resources and prompts of the suite, which no other server has.
 */

const BOTH = ['server-initialize', 'ping', 'tools-list']
const LOCAL = [...BOTH, 'resources-list']

/** Why the other scenarios do not apply. */
const NOT_APPLICABLE: Readonly<Record<string, readonly string[]>> = {
  // They call tools with names like test_simple_text, and compare what the suite says these return.
  'calls a tool of the suite': [
    'tools-call-simple-text',
    'tools-call-image',
    'tools-call-audio',
    'tools-call-embedded-resource',
    'tools-call-mixed-content',
    'tools-call-with-logging',
    'tools-call-error',
    'tools-call-with-progress',
    'tools-call-sampling',
    'tools-call-elicitation',
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
    'json-schema-2020-12',
    'server-sse-polling',
  ],
  'reads a resource of the suite': [
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'resources-subscribe',
    'resources-unsubscribe',
  ],
  'needs a capability that neither server declares': [
    'logging-set-level',
    'completion-complete',
    'prompts-list',
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
  ],
  // The local server has no HTTP, and the hosted one no sessions: the suite ends at the missing session id with a warning.
  'needs sessions over HTTP': ['server-sse-multiple-streams'],
  // It is for servers on localhost without HTTPS. The hosted one is public, and each call is paid by a signature of its own: a page
  // that a browser shows can do nothing with it that it could not do elsewhere.
  'is for servers on localhost': ['dns-rebinding-protection'],
}

const SUITE = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)
const run = promisify(execFile)

let sandbox: SharedSandbox
let bridge: HttpBridge
let folder: string
const urls: Record<string, string> = {}
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  folder = await mkdtemp(join(tmpdir(), 'farebox-conformance-'))
  const environment = serverEnvironment({ baseUrl: sandbox.info.baseUrl, home: join(folder, 'home') })
  bridge = await startHttpBridge(serverCommand(), environment)
  Object.assign(urls, { local: bridge.url, hosted: `${sandbox.info.baseUrl}/mcp` })
})
afterAll(async () => {
  await bridge.stop()
  await rm(folder, { recursive: true, force: true })
  await sandbox.stop()
})

test('every scenario of the suite is run, or has a reason why it does not apply', async () => {
  const { stdout } = await run(process.execPath, [SUITE, 'list', '--server'])
  const [servers = ''] = stdout.split('Client scenarios')
  const scenarios = [...servers.matchAll(/^ {2}- (\S+)/gm)].map(([, name = '']) => name)
  expect(scenarios.toSorted()).toEqual([...LOCAL, ...Object.values(NOT_APPLICABLE).flat()].toSorted())
})

describe.each([
  ['local', LOCAL],
  ['hosted', BOTH],
])('the %s server', (server, scenarios) => {
  test.each(scenarios)('conforms: %s', async (scenario) => {
    const output = join(folder, `${server}-${scenario}`)
    const args = ['server', '--url', urls[server] ?? '', '--scenario', scenario, '--output-dir', output]
    await run(process.execPath, [SUITE, ...args])
    const [place = ''] = await readdir(output)
    const checks = JSON.parse(await readFile(join(output, place, 'checks.json'), 'utf8')) as { status: string }[]
    expect(checks.map(({ status }) => status)).toEqual(['SUCCESS'])
  })
})

test('the local server writes nothing to standard output that was not asked for', () => {
  expect(bridge.unasked).toEqual([])
})
