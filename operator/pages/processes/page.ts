import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { ConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import type { ProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { findKeyProblems } from '#shared/operators/key-problems.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import { addPage } from '../../rendering/page.ts'

export interface ProcessesPageDependencies {
  readonly processes: Pick<ProcessReportStore, 'readProcesses'>
  readonly configurationReader: ConfigurationReader
  readonly reports: Pick<ReportsStore, 'readKeyUse'>
}

/** Adds the running processes: their versions, keys, and what they have applied of the configuration. */
export function addProcessesPages(app: FastifyInstance, dependencies: ProcessesPageDependencies): void {
  addPage(app, {
    path: '/operator/processes',
    query: z.object({}),
    isLive: true,
    read: async () => ({ title: 'Processes', view: 'processes/processes', data: await readPage(dependencies) }),
  })
}

async function readPage({ processes, configurationReader, reports }: ProcessesPageDependencies) {
  const [seen, current, keyUse] = await Promise.all([
    processes.readProcesses(),
    configurationReader.readRevision(),
    reports.readKeyUse(),
  ])
  const revision = current.toString()
  const running = seen.filter(({ isRunning }) => isRunning)
  return {
    revision,
    keyProblems: findKeyProblems(running, keyUse),
    keyUse,
    applied: (['api', 'worker'] as const).map((kind) => appliedBy(kind, running, revision)),
    processes: seen.map((process) => ({
      ...process,
      isCurrent: process.kind === 'operator' || process.report.configurationRevision === revision,
      keys: Object.entries(process.report.keys),
      providerKeys: Object.entries(process.report.providerKeys ?? {}),
    })),
  }
}

function appliedBy(kind: 'api' | 'worker', running: readonly SeenProcess[], revision: string) {
  const ofKind = running.filter((process) => process.kind === kind)
  const applied = ofKind.filter(({ report }) => report.configurationRevision === revision)
  return { kind, applied: applied.length, running: ofKind.length }
}
