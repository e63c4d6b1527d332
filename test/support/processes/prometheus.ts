import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { until } from '../until.ts'
import { pathOf } from './optional-program.ts'

const RULES = fileURLToPath(new URL('../../../infra/prometheus/alerts.yml', import.meta.url))

interface Alert {
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly state: 'pending' | 'firing'
}

/** A real Prometheus with the service's own rules. */
export interface TestPrometheus {
  readonly url: string
  /** Returns the alerts with this name that fire now. */
  firing(name: string): Promise<readonly Alert[]>
  stop(): Promise<void>
}

/** Starts Prometheus, which scrapes the targets and evaluates the rules every second. */
export async function startPrometheus(targets: Readonly<Record<string, number>>): Promise<TestPrometheus> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-prometheus-'))
  const file = join(directory, 'prometheus.yml')
  const jobs = Object.entries(targets).map(([name, port]) => ({
    job_name: name,
    static_configs: [{ targets: [`127.0.0.1:${port}`] }],
  }))
  // JSON is YAML.
  const configuration = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [RULES],
    scrape_configs: jobs,
  }
  await writeFile(file, JSON.stringify(configuration))
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const program = spawnGuarded({
    command: pathOf('prometheus'),
    args: [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    env: { PATH: process.env['PATH'] ?? '' },
  })
  await until(async () => (await fetch(`${url}/-/ready`).catch(() => null))?.ok)
  return {
    url,
    firing: async (name) => {
      const answer = (await (await fetch(`${url}/api/v1/alerts`)).json()) as { data: { alerts: readonly Alert[] } }
      return answer.data.alerts.filter(({ labels, state }) => labels['alertname'] === name && state === 'firing')
    },
    stop: async () => {
      await program.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
