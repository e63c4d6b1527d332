import { readdir, readFile } from 'node:fs/promises'
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
          labels: z.strictObject({ severity: z.enum(['none', 'warning', 'critical']) }),
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

/** The folder of promtool's tests of the alert rules. */
export const ALERT_TESTS = new URL('../../contract/operations/alerts/', import.meta.url)

export const RULES_FILES = ['alerts.yml', 'infrastructure.yml'] as const

/** Reads the rule groups of a file, checking that they have nothing but what is expected. */
export async function readRuleGroups(file: (typeof RULES_FILES)[number]) {
  const text = await readFile(new URL(`prometheus/${file}`, INFRA), 'utf8')
  return alertsSchema.parse(parse(text)).groups
}

/** Reads the alerts about farebox's own metrics. */
export async function readAlerts(): Promise<readonly Alert[]> {
  return (await readRuleGroups('alerts.yml')).flatMap(({ rules }) => rules)
}

/** Reads the alerts about what farebox runs on, whose metrics come from exporters. */
export async function readInfrastructureAlerts(): Promise<readonly Alert[]> {
  return (await readRuleGroups('infrastructure.yml')).flatMap(({ rules }) => rules)
}

const alertTestsSchema = z.object({
  tests: z.array(
    z.object({
      alert_rule_test: z.array(z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) })),
    }),
  ),
})

/** Reads which alerts promtool's tests expect to fire, and which to stay silent. */
export async function readTestedAlerts(): Promise<Readonly<Record<'firing' | 'silent', ReadonlySet<string>>>> {
  const texts = await Promise.all(
    (await readdir(ALERT_TESTS)).map((name) => readFile(new URL(name, ALERT_TESTS), 'utf8')),
  )
  const expectations = texts
    .flatMap((text) => alertTestsSchema.parse(parse(text)).tests)
    .flatMap(({ alert_rule_test: each }) => each)
  const namesOf = (isFiring: boolean) =>
    new Set(expectations.filter(({ exp_alerts: alerts }) => alerts.length > 0 === isFiring).map((one) => one.alertname))
  return { firing: namesOf(true), silent: namesOf(false) }
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
