import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'

const INFRA = new URL('../../../infra/', import.meta.url)

const alertsSchema = z.object({
  groups: z.array(
    z.object({
      name: z.string(),
      rules: z.array(
        z.strictObject({
          alert: z.string(),
          expr: z.string(),
          for: z.string().optional(),
          labels: z.strictObject({ severity: z.enum(['warning', 'critical']) }),
          annotations: z.strictObject({ summary: z.string() }),
        }),
      ),
    }),
  ),
})

const panelSchema = z.object({
  title: z.string(),
  type: z.string(),
  targets: z.array(z.object({ expr: z.string(), legendFormat: z.string() })).default([]),
})

export type Alert = z.infer<typeof alertsSchema>['groups'][number]['rules'][number]
export type Panel = z.infer<typeof panelSchema>

export async function readAlerts(): Promise<readonly Alert[]> {
  const text = await readFile(new URL('prometheus/alerts.yml', INFRA), 'utf8')
  return alertsSchema.parse(parse(text)).groups.flatMap(({ rules }) => rules)
}

/** Reads the panels with queries. */
export async function readPanels(): Promise<readonly Panel[]> {
  const text = await readFile(new URL('grafana/dashboard.json', INFRA), 'utf8')
  return z
    .object({ panels: z.array(panelSchema) })
    .parse(JSON.parse(text))
    .panels.filter(({ type }) => type !== 'row')
}

/** Reads the headings of the runbook's sections. */
export async function readRunbook(): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(new URL('runbook.md', INFRA), 'utf8')
  const sections = text.split(/^## /m).slice(1)
  return new Map(
    sections.map((section) => [section.split('\n', 1)[0] ?? '', section.split('\n').slice(1).join('\n').trim()]),
  )
}
