import { describe, expect, test } from 'vitest'
import { readAlerts, readPanels, readRunbook } from '../../support/deployment/operator-files.ts'
import { parsePromQl } from '../../support/deployment/promql.ts'

const alerts = await readAlerts()
const panels = await readPanels()
const runbook = await readRunbook()

describe('the runbook', () => {
  test('has one paragraph for each alert, in their order, and no other', () => {
    expect([...runbook.keys()]).toEqual(alerts.map(({ alert }) => alert))
  })

  test.each([...runbook])('says of %s in one paragraph what it means and what to do', (_name, text) => {
    expect(text).not.toContain('\n\n')
    expect(text.length).toBeGreaterThan(150)
  })

  test('names no alert that there is not', () => {
    const named = [...runbook.values()].flatMap((text) => [...text.matchAll(/Farebox\w+/g)].map(([name]) => name))
    expect(named.filter((name) => !runbook.has(name))).toEqual([])
  })
})

describe('the alert rules', () => {
  test.each(alerts.map((alert) => [alert.alert, alert] as const))('%s can be evaluated', (_name, { expr }) => {
    expect(parsePromQl(expr).selectors.length).toBeGreaterThan(0)
  })

  test('have names of their own', () => {
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length)
  })
})

describe('the dashboard', () => {
  test.each(panels.map((panel) => [panel.title, panel] as const))('asks for %s', (_title, { targets }) => {
    expect(targets.length).toBeGreaterThan(0)
    for (const { expr } of targets) expect(parsePromQl(expr).selectors.length).toBeGreaterThan(0)
  })

  test('has panels of their own names', () => {
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
  })
})
