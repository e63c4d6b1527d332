import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { ADAPTER_NAMES } from '#shared/catalog/adapter-names.ts'
import { operationById } from '#shared/operations/registry.ts'
import { adapters } from '../../workers/providers/registry.ts'
import { FAMILIES, tryOptions } from '../support/vendors/options/option-table.ts'
import { PROBES, type TabledOperation } from '../support/vendors/options/probes.ts'

const OPERATIONS = Object.keys(PROBES) as TabledOperation[]
const ROWS = await Promise.all(OPERATIONS.map(tryOptions))
const rows = ROWS.flat()
const REQUIRED: ReadonlySet<string> = new Set(['model', 'messages'])

describe('no option is dropped in silence', () => {
  test('every adapter is tried with each operation that it has a port for', () => {
    const connection = {
      baseUrl: 'http://vendor',
      apiKey: 'a-key',
      upstreamModel: 'model',
      http: () => Promise.reject(new Error('no call')),
    }
    const ports = { createChatCompletion: 'text', createMessage: 'text', createSpeech: 'speech' } as const
    for (const operation of OPERATIONS) {
      const port = operation === 'createTranscription' ? 'transcription' : ports[operation]
      const capable = ADAPTER_NAMES.filter((name) => adapters[name].ports(connection, {})[port] !== undefined)
      expect(FAMILIES[operation].map(([, adapter]) => adapter).toSorted()).toEqual(capable.toSorted())
    }
  })

  test('a value that is shown as JSON is what the field of its row is set to', () => {
    const shown = OPERATIONS.flatMap((operation) =>
      Object.entries(PROBES[operation]).flatMap(([field, probes]) =>
        probes.flatMap(({ label, fields }) => (isJson(label) ? [{ field, label, set: memberAt(fields, field) }] : [])),
      ),
    )
    expect(shown.length).toBeGreaterThan(10)
    expect(shown.filter(({ label, set }) => JSON.stringify(set) !== label)).toEqual([])
  })

  test('an option that is refused without others names them', () => {
    const needing = rows.filter(({ needs }) => needs.length > 0)
    expect(needing.map(({ field, value, needs }) => [field, value, ...needs])).toEqual([
      ['tool_choice', '"required"', '`tools`'],
      ['tool_choice', 'a function', '`tools`'],
      ['tool_choice.allowed_tools', 'one of two', '`tools`'],
      ['function_call', 'a function', '`tools`'],
      ['tool_choice', '{"type":"any"}', '`tools`'],
      ['tool_choice.name', 'a tool', '`tools`'],
      ['thinking.budget_tokens', '8192', '`max_tokens` 9000'],
    ])
  })

  test.each(['createChatCompletion', 'createMessage'] as const)(
    '%s: null is absent, but in the fields that CALLING.md names',
    (id) => {
      const [exceptions = ''] = /`null` is absent[^]*?;/.exec(readOptionsSection()) ?? []
      const { bodySchema, requestExample } = operationById(id)
      const fields = Object.keys(PROBES[id]).filter((field) => !/[.[]/.test(field) && !REQUIRED.has(field))
      const refused = fields.filter((field) => !bodySchema.safeParse({ ...requestExample, [field]: null }).success)
      expect(refused.toSorted()).toEqual(fields.filter((field) => exceptions.includes(`\`${field}\``)).toSorted())
    },
  )

  test('what is left out has its sentence in CALLING.md', () => {
    const options = readOptionsSection()
    const leftOut = rows.filter(({ cells }) =>
      cells.some(
        ({ kind, trials }) =>
          kind !== 'the default' &&
          trials.some((trial) => trial.outcome === 'priced' && trial.sent.length === 0 && !trial.isAnswerChanged),
      ),
    )
    const names = new Set(leftOut.map(({ field }) => field.split(/[.[]/).at(-1) ?? field))
    expect(names.size).toBeGreaterThan(20)
    expect([...names].filter((name) => !new RegExp(`\`[^\`]*\\b${name}\\b[^\`]*\``).test(options))).toEqual([])
  })

  test('what is refused is refused with its field, or the one that it contradicts', () => {
    const refusals = rows.flatMap(({ field, cells }) =>
      cells.flatMap(({ trials }) =>
        trials.flatMap((trial) =>
          trial.outcome === 'refused' ? [{ field: topOf(field), named: topOf(trial.param) }] : [],
        ),
      ),
    )
    expect(refusals.length).toBeGreaterThan(100)
    expect(refusals.filter(({ field, named }) => field !== named)).toEqual([])
  })

  test('no option is refused by one adapter and left out by another: it changes the answer or it does not', () => {
    const mixed = rows.filter(({ cells }) => {
      const kinds = cells.map(({ kind }) => kind)
      return kinds.includes('refused') && (kinds.includes('left out') || kinds.includes('the default'))
    })
    expect(mixed).toEqual([])
  })
})

function readOptionsSection(): string {
  const page = readFileSync(fileURLToPath(new URL('../../CALLING.md', import.meta.url)), 'utf8')
  return page.slice(page.indexOf('\n### Options\n'), page.indexOf('\n## What is stored\n'))
}

function topOf(path: string | undefined): string | undefined {
  return path?.split(/[.[]/)[0]
}

function isJson(text: string | undefined): text is string {
  try {
    JSON.parse(text ?? '')
    return true
  } catch {
    return false
  }
}

/** Returns the member at `tools[].function.strict`, of a list that of its first item. */
function memberAt(fields: unknown, path: string): unknown {
  return path
    .replaceAll('[]', '.0')
    .split('.')
    .reduce<unknown>((value, name) => (value as Readonly<Record<string, unknown>> | undefined)?.[name], fields)
}
