import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import type { AccountPeriod } from '#shared/ledger/account/account-store.ts'
import type { AccountPosition, PageRequest } from '#shared/ledger/position.ts'
import { invalidField } from '../request/field-errors.ts'
import { DEFAULT_PAGE, DEFAULT_SPEND_DAYS, MAXIMUM_PAGE, MAXIMUM_SPEND_DAYS } from '../schemas/account.ts'

const DAY_MS = 24 * 3600 * 1000

const date = z.iso
  .date({ error: 'must be a date such as 2026-11-22' })
  .regex(/^2[01]/, { error: 'must be a date from 2000 to 2199' })
const limit = z
  .string()
  .regex(/^\d{1,3}$/, { error: `must be an integer from 1 to ${MAXIMUM_PAGE}` })
  .transform(Number)
  .refine((value) => value >= 1 && value <= MAXIMUM_PAGE, { error: `must be an integer from 1 to ${MAXIMUM_PAGE}` })
const cursor = z.string().transform((text, context) => {
  const position = openCursor(text)
  if (position !== null) return position
  context.addIssue({ code: 'custom', message: 'must be the next_cursor of the page before' })
  return z.NEVER
})

const pageSchema = z.strictObject({ limit: limit.optional(), cursor: cursor.optional() })
const receiptsSchema = z.strictObject({ ...pageSchema.shape, from: date.optional(), to: date.optional() })
const spendSchema = z.strictObject({
  from: date.optional(),
  to: date.optional(),
  format: z.enum(['json', 'csv']).optional(),
})

/** Reads `limit` and `cursor`. Throws `invalid_field` and `unknown_field`, as the other readers do. */
export function readPageQuery(query: unknown): PageRequest {
  return pageOf(parse(pageSchema, query))
}

/** Reads the page and the dates of a list of receipts; without dates the list has all of them. */
export function readReceiptsQuery(query: unknown): PageRequest & { readonly period: AccountPeriod } {
  const { from, to, ...page } = parse(receiptsSchema, query)
  if (from !== undefined && to !== undefined) requireOrder(from, to)
  return {
    ...pageOf(page),
    period: { from: from === undefined ? null : startOf(from), until: to === undefined ? null : endOf(to) },
  }
}

/** The days of a sum, both included. */
export interface SpendQuery {
  readonly from: string
  readonly to: string
  readonly format: 'json' | 'csv' | undefined
  readonly period: AccountPeriod
}

/** Reads the days of a sum: the last ones until today, unless they are given, and a year at most. */
export function readSpendQuery(query: unknown, now: Date): SpendQuery {
  const { format, ...dates } = parse(spendSchema, query)
  const to = dates.to ?? dayOf(now)
  const from = dates.from ?? dayOf(new Date(startOf(to).getTime() - (DEFAULT_SPEND_DAYS - 1) * DAY_MS))
  requireOrder(from, to)
  const period = { from: startOf(from), until: endOf(to) }
  const days = (period.until.getTime() - period.from.getTime()) / DAY_MS
  if (days <= MAXIMUM_SPEND_DAYS) return { from, to, format, period }
  const message = `from and to must be at most ${MAXIMUM_SPEND_DAYS} days apart; got ${days} days.`
  throw new AppError('invalid_field', { param: 'from', message })
}

function parse<Output>(schema: z.ZodType<Output>, query: unknown): Output {
  const parsed = schema.safeParse(query)
  if (parsed.success) return parsed.data
  throw invalidField(parsed.error, query)
}

function pageOf(page: { limit?: number | undefined; cursor?: AccountPosition | undefined }): PageRequest {
  return { limit: page.limit ?? DEFAULT_PAGE, after: page.cursor ?? null }
}

function requireOrder(from: string, to: string): void {
  if (from <= to) return
  throw new AppError('invalid_field', { param: 'from', message: `from must not be after to; got ${from} and ${to}.` })
}

function startOf(day: string): Date {
  return new Date(`${day}T00:00:00Z`)
}

function endOf(day: string): Date {
  return new Date(startOf(day).getTime() + DAY_MS)
}

function dayOf(moment: Date): string {
  return moment.toISOString().slice(0, 'YYYY-MM-DD'.length)
}

/** Sixteen bytes of the id, eight of the time. */
const CURSOR_BYTES = 24
const ID_BYTES = 16

/** Returns a position as `next_cursor`. It holds no secret: a page has only the caller's own entries. */
export function sealCursor({ microseconds, id }: AccountPosition): string {
  const bytes = Buffer.alloc(CURSOR_BYTES)
  bytes.write(id.replaceAll('-', ''), 'hex')
  bytes.writeBigUInt64BE(microseconds, ID_BYTES)
  return bytes.toString('base64url')
}

function openCursor(text: string): AccountPosition | null {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length !== CURSOR_BYTES || bytes.toString('base64url') !== text) return null
  const microseconds = bytes.readBigUInt64BE(ID_BYTES)
  if (microseconds > BigInt(Number.MAX_SAFE_INTEGER)) return null
  const id = bytes.toString('hex', 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  return { microseconds, id }
}
