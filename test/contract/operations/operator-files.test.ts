import { describe, expect, test } from 'vitest'
import {
  readAlerts,
  readInfrastructureAlerts,
  readPanels,
  readRunbook,
  readTestedAlerts,
} from '../../support/deployment/operator-files.ts'
import { parsePromQl } from '../../support/deployment/promql.ts'

const alerts = [...(await readAlerts()), ...(await readInfrastructureAlerts())]
/** Fires always. */
const WATCHDOG = 'FareboxWatchdog'
const panels = await readPanels()
const runbook = await readRunbook()

describe('the runbook', () => {
  test('the runbook has exactly one paragraph for each alert, in the same order', () => {
    expect([...runbook.keys()]).toEqual(alerts.map(({ alert }) => alert))
  })

  test.each([...runbook])('the runbook explains %s and what to do in one paragraph', (_name, text) => {
    expect(text).not.toContain('\n\n')
    expect(text.length).toBeGreaterThan(150)
  })

  test('the runbook names only existing alerts', () => {
    const named = [...runbook.values()].flatMap((text) => [...text.matchAll(/Farebox\w+/g)].map(([name]) => name))
    expect(named.filter((name) => !runbook.has(name))).toEqual([])
  })
})

describe('the alert rules', () => {
  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    'the alert rule %s can be parsed',
    (_name, { expr }) => {
      expect(parsePromQl(expr).selectors.length).toBeGreaterThan(expr === 'vector(1)' ? -1 : 0)
    },
  )

  test('each alert rule has a test in which it fires and one in which it stays silent', async () => {
    const { firing, silent } = await readTestedAlerts()
    const names = alerts.map(({ alert }) => alert)
    expect(names.filter((name) => !firing.has(name))).toEqual([])
    expect(names.filter((name) => !silent.has(name))).toEqual([WATCHDOG])
    expect([...firing, ...silent].filter((name) => !names.includes(name))).toEqual([])
  })

  test('alert rules have unique names', () => {
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length)
  })
})

describe('the dashboard', () => {
  test.each(panels.map((panel) => [panel.title, panel] as const))(
    'the queries of dashboard panel %s can be parsed',
    (_title, { targets }) => {
      expect(targets.length).toBeGreaterThan(0)
      for (const { expr } of targets) expect(parsePromQl(expr).selectors.length).toBeGreaterThan(0)
    },
  )

  test('dashboard panels have unique titles', () => {
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
  })
})
