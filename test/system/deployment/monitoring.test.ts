import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { ALERT_TESTS } from '../../support/deployment/operator-files.ts'
import { havePrograms, pathOf } from '../../support/processes/optional-program.ts'
import { until } from '../../support/until.ts'

const run = promisify(execFile)
const START = fileURLToPath(new URL('../../../infra/alertmanager/start.sh', import.meta.url))
const ALL_RECEIVERS = {
  ALERT_RECEIVERS: 'webhook,slack,email',
  ALERT_WEBHOOK_URL: "https://receiver.example/it's?a=b&c=$d",
  ALERT_SLACK_URL: 'https://hooks.slack.example/services/T/B/x',
  ALERT_EMAIL_TO: 'operator@farebox.example',
  ALERT_EMAIL_FROM: 'alerts@farebox.example',
  ALERT_SMTP_HOST: 'mail.example:587',
  ALERT_SMTP_USER: 'alerts',
  ALERT_SMTP_PASSWORD: `p'a"s$s\\word #: `,
  ALERT_HEARTBEAT_URL: 'https://heartbeat.example/x',
}
const files = await readdir(ALERT_TESTS)

describe.skipIf(!havePrograms('amtool', 'prometheus-alertmanager'))('the start of Alertmanager', () => {
  let directory: string
  let file: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-alertmanager-'))
    file = join(directory, 'alertmanager.yml')
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  /** Runs the script with a program named `alertmanager` that only ends. */
  async function configure(settings: Readonly<Record<string, string>>): Promise<string> {
    await writeFile(join(directory, 'alertmanager'), '#!/bin/sh\nexit 0\n')
    await chmod(join(directory, 'alertmanager'), 0o755)
    const env = { PATH: `${directory}:${process.env['PATH'] ?? ''}`, ALERTMANAGER_CONFIG: file, ...settings }
    const { stderr } = await run('sh', [START], { env })
    return stderr
  }
  const receiverOf = async (...labels: readonly string[]) => {
    const { stdout } = await run('amtool', ['config', 'routes', 'test', `--config.file=${file}`, ...labels])
    return stdout.trim()
  }

  test('every receiver’s configuration is valid, whatever characters its settings contain', async () => {
    expect(await configure(ALL_RECEIVERS)).toBe('')
    expect((await run('amtool', ['check-config', file])).stdout).toContain('SUCCESS')
    const text = await readFile(file, 'utf8')
    for (const value of Object.values(ALL_RECEIVERS).slice(1)) expect(text).toContain(value.replaceAll("'", "''"))
  })

  test('alerts go to the operators, and the watchdog to the heartbeat', async () => {
    await configure(ALL_RECEIVERS)
    expect(await receiverOf('alertname=FareboxWatchdog', 'severity=none')).toBe('heartbeat')
    expect(await receiverOf('alertname=FareboxDown', 'severity=critical')).toBe('operators')
    expect(await receiverOf('alertname=FareboxGasLow', 'severity=warning')).toBe('operators')
  })

  test('Alertmanager says so when nobody is notified, and when nobody would notice its end', async () => {
    const output = await configure({ ALERT_RECEIVERS: 'none' })
    expect(output).toContain('nobody is notified of any alert')
    expect(output).toContain('ALERT_HEARTBEAT_URL is not set')
    expect((await run('amtool', ['check-config', file])).stdout).toContain('SUCCESS')
  })

  test.each([
    [{}, 'set ALERT_RECEIVERS in .env'],
    [{ ALERT_RECEIVERS: 'pager' }, 'ALERT_RECEIVERS names pager'],
    [{ ALERT_RECEIVERS: 'webhook' }, 'needs ALERT_WEBHOOK_URL'],
    [{ ALERT_RECEIVERS: 'slack' }, 'needs ALERT_SLACK_URL'],
    [{ ALERT_RECEIVERS: 'email', ALERT_EMAIL_TO: 'a@b.example', ALERT_EMAIL_FROM: 'c@b.example' }, 'ALERT_SMTP_HOST'],
  ])('Alertmanager does not start with %o', async (settings, message) => {
    await expect(configure(settings)).rejects.toThrow(message)
  })

  describe('running', () => {
    let receiver: Server
    const received: { path: string; alerts: { labels: { alertname: string }; status: string }[] }[] = []
    beforeAll(async () => {
      receiver = createServer((request, response) => {
        let body = ''
        request.setEncoding('utf8').on('data', (part: string) => (body += part))
        request.on('end', () => {
          received.push({ path: request.url ?? '', ...(JSON.parse(body) as { alerts: [] }) })
          response.end()
        })
      }).listen(0, '127.0.0.1')
      await once(receiver, 'listening')
    })
    afterAll(() => receiver.close())

    test('an alert reaches the operators’ webhook, and the watchdog the heartbeat', async () => {
      await rm(join(directory, 'alertmanager'), { force: true })
      await symlink(pathOf('prometheus-alertmanager'), join(directory, 'alertmanager'))
      const address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
      const port = await findFreePort()
      const alertmanager = spawnGuarded({
        command: 'sh',
        args: [
          START,
          `--web.listen-address=127.0.0.1:${port}`,
          '--cluster.listen-address=',
          `--storage.path=${directory}`,
        ],
        env: {
          PATH: `${directory}:${process.env['PATH'] ?? ''}`,
          ALERTMANAGER_CONFIG: file,
          ALERT_RECEIVERS: 'webhook',
          ALERT_WEBHOOK_URL: `${address}/operators`,
          ALERT_HEARTBEAT_URL: `${address}/heartbeat`,
        },
      })
      try {
        const url = `http://127.0.0.1:${port}`
        await until(async () => (await fetch(`${url}/-/ready`).catch(() => null))?.ok === true)
        const alerts = [
          { labels: { alertname: 'FareboxNoApi', severity: 'critical' } },
          { labels: { alertname: 'FareboxWatchdog', severity: 'none' } },
        ]
        const answer = await fetch(`${url}/api/v2/alerts`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(alerts),
        })
        expect(answer.status).toBe(200)
        const namesAt = (path: string) =>
          received
            .filter((one) => one.path === path)
            .flatMap(({ alerts: all }) => all.map((one) => one.labels.alertname))
        await expect.poll(() => namesAt('/heartbeat')).toContain('FareboxWatchdog')
        await expect.poll(() => namesAt('/operators')).toEqual(['FareboxNoApi'])
      } finally {
        await alertmanager.stop()
      }
    })
  })
})

describe.skipIf(!havePrograms('promtool'))('promtool', () => {
  test.each(files)('the alert rules fire and stay silent as alerts/%s expects', async (name) => {
    const run = promisify(execFile)('promtool', ['test', 'rules', name], { cwd: fileURLToPath(ALERT_TESTS) })
    // promtool prints which expectation failed.
    const output = await run.catch((error: { stdout: string; stderr: string }) => error)
    expect(output.stdout + output.stderr).not.toContain('FAILED')
    await run
  })
})
