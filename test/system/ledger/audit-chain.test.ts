import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { readAuditHead, readChain } from '#shared/ledger/operators/read-chain.ts'
import type { Sql } from '#shared/ledger/pool.ts'
import { inTransaction } from '#shared/ledger/transaction.ts'
import { findBreaks } from '#shared/operators/audit-chain.ts'
import { main } from '../../../infra/commands/ledger/main.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const AUTHOR = { operator: 'tester', source: 'command' } as const
/** Texts that two ways of writing down a row could differ in. */
const TEXTS = ['', 'a,b', '3:abc', '-', 'Ω 🚋 é', 'line\nline', '"\\', '\u2028', 'x'.repeat(2000)]

/** Runs the command. Returns its exit code, and what it says about the audit. */
async function judge(on: TestLedger, ...options: readonly string[]) {
  const printed: string[] = []
  vi.spyOn(console, 'log').mockImplementation((text: string) => void printed.push(text))
  try {
    const exitCode = await main(['--no-chain', '--json', ...options], { DATABASE_URL: on.url })
    const { audit } = JSON.parse(printed.join('')) as {
      audit: { head: { position: string; hash: string }; breaks: string[] }
    }
    return { exitCode, ...audit }
  } finally {
    vi.restoreAllMocks()
  }
}
/** Changes the audit as the owner of the database can. */
async function tamper(sql: Sql, statement: string): Promise<void> {
  await sql.query('ALTER TABLE operator_actions DISABLE TRIGGER USER')
  await sql.query(statement)
  await sql.query('ALTER TABLE operator_actions ENABLE TRIGGER USER')
}

describe('the audit of operators', () => {
  let ledger: TestLedger
  beforeEach(async () => {
    ledger = await createTestLedger()
  })
  afterEach(() => ledger.close())

  const record = async (subject: string, reason: string | null = null, on = ledger) =>
    await createOperatorStore(on.pool).recordEvent(AUTHOR, {
      action: 'test.record',
      subject,
      reason,
      details: { text: reason, of: [1, 2.5, null, { z: '', a: subject }] },
    })
  it('is complete after any text, and after actions at the same time', async () => {
    for (const text of TEXTS) await record(text.slice(0, 300), text)
    await Promise.all(Array.from({ length: 40 }, (_, index) => record(`at once ${index}`)))
    const { exitCode, head, breaks } = await judge(ledger)
    expect({ exitCode, position: head.position, breaks }).toEqual({ exitCode: 0, position: '49', breaks: [] })
    expect(await ledger.sql('SELECT position FROM operator_actions ORDER BY position')).toEqual(
      Array.from({ length: 49 }, (_, index) => ({ position: String(index + 1) })),
    )
  })

  it('has no place for an action that was rolled back, and none that its author chooses', async () => {
    const before = await judge(ledger)
    const rolledBack = inTransaction(ledger.pool, async (sql) => {
      await sql.query(
        "INSERT INTO operator_actions (operator, source, action, subject) VALUES ('a', 'command', 'b', 'c')",
      )
      throw new Error('changed my mind')
    })
    await expect(rolledBack).rejects.toThrow('changed my mind')
    await ledger.sql(
      `INSERT INTO operator_actions (operator, source, action, subject, position, hash)
       VALUES ('a', 'command', 'b', 'c', 1, repeat('f', 64))`,
    )
    const { head, breaks } = await judge(ledger)
    expect([Number(head.position), breaks]).toEqual([Number(before.head.position) + 1, []])
  })

  describe('that its owner tampered with', () => {
    let copy: TestLedger
    beforeAll(async () => {
      copy = await createTestLedger()
      for (let index = 1; index <= 10; index += 1) await record(`action ${index}`, null, copy)
    })
    afterAll(() => copy.close())

    it.each<[string, string, readonly string[]]>([
      ['a deleted action', 'DELETE FROM operator_actions WHERE position = 5', ['action 5 is missing']],
      [
        'deleted actions',
        'DELETE FROM operator_actions WHERE position IN (1, 5, 6)',
        ['action 1 is missing', 'actions 5 to 6 are missing'],
      ],
      ['the last action, deleted', 'DELETE FROM operator_actions WHERE position = 10', ['action 10 is missing']],
      ['all actions, deleted', 'DELETE FROM operator_actions', ['actions 1 to 10 are missing']],
      ...(
        [
          ['who did it', "operator = 'another'"],
          ['where', "source = 'console'"],
          ['what', "action = 'another.action'"],
          ['to what', "subject = 'another'"],
          ['why', "reason = ''"],
          ['how', 'details = details || \'{"added": 1}\''],
          ['when', "done_at = done_at + interval '1 microsecond'"],
        ] as const
      ).map(([what, change]): [string, string, readonly string[]] => [
        `a change of ${what}`,
        `UPDATE operator_actions SET ${change} WHERE position = 5`,
        ['action 5 is not the one that was recorded after action 4'],
      ]),
      [
        'two actions in each other’s place',
        `UPDATE operator_actions SET position = position + 100 WHERE position IN (4, 5);
         UPDATE operator_actions SET position = 109 - position WHERE position > 100`,
        [4, 5, 6].map((position) => `action ${position} is not the one that was recorded after action ${position - 1}`),
      ],
      [
        'an action that got the hash of its new content',
        `UPDATE operator_actions SET subject = 'another' WHERE position = 5;
         UPDATE operator_actions AS changed SET hash = operator_action_hash(ARRAY[before.hash, '5'] || operator_action_parts(changed))
         FROM operator_actions AS before WHERE changed.position = 5 AND before.position = 4`,
        ['action 6 is not the one that was recorded after action 5'],
      ],
      [
        'an added action',
        `ALTER TABLE operator_actions ENABLE TRIGGER USER; ALTER TABLE operator_actions DISABLE TRIGGER operator_actions_are_chained;
         INSERT INTO operator_actions (operator, source, action, subject, position, hash)
         VALUES ('a', 'command', 'b', 'c', 11, repeat('f', 64))`,
        [
          'action 11 is not the one that was recorded after action 10',
          'action 11 is not the last one that was recorded',
        ],
      ],
    ])('shows %s', async (_title, statement, breaks) => {
      const client = await copy.pool.connect()
      try {
        await client.query('BEGIN')
        await tamper(client, statement)
        expect(await findBreaks(readChain(client), await readAuditHead(client), null)).toEqual(breaks)
      } finally {
        await client.query('ROLLBACK')
        client.release()
      }
    })

    it('fails npm run ledger, against a head that was written down also where head and hashes were written anew', async () => {
      const { head } = await judge(copy)
      const remembered = ['--audit-head', `${head.position}:${head.hash}`]
      await record('later', null, copy)
      expect(await judge(copy, ...remembered)).toMatchObject({ exitCode: 0, breaks: [] })
      await inTransaction(copy.pool, (sql) => tamper(sql, 'DELETE FROM operator_actions WHERE position >= 9'))
      expect(await judge(copy)).toMatchObject({ exitCode: 1, breaks: ['actions 9 to 11 are missing'] })
      await copy.sql(`UPDATE operator_action_head SET (position, hash) =
        (SELECT position, hash FROM operator_actions ORDER BY position DESC LIMIT 1)`)
      expect(await judge(copy)).toMatchObject({ exitCode: 0, breaks: [] })
      expect(await judge(copy, ...remembered)).toMatchObject({
        exitCode: 1,
        breaks: [`action 10 had the hash ${head.hash}, and has none`],
      })
      for (const subject of ['9 anew', '10 anew']) await record(subject, null, copy)
      expect(await judge(copy, ...remembered)).toMatchObject({
        exitCode: 1,
        breaks: [expect.stringMatching(`^action 10 had the hash ${head.hash}, and has (?!${head.hash})[0-9a-f]{64}$`)],
      })
    })
  })
})
