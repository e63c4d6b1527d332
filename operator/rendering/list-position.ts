import { z } from 'zod'
import type { ListPosition } from '#shared/operators/money-store.ts'

const POSITION = /^(\d{1,16})_([0-9a-f-]{36})$/

/** The query parameter of a place in a list; `null` for the beginning, which an unreadable one means too. */
export const listPosition = z
  .string()
  .transform((text): ListPosition | null => {
    const [, microseconds, id] = POSITION.exec(text) ?? []
    return microseconds !== undefined && id !== undefined && z.guid().safeParse(id).success
      ? { microseconds: BigInt(microseconds), id }
      : null
  })
  .default(null)

/** Returns the link to the next part of a list, with the filters of this one; `null` on the last one. */
export function linkToNext(
  path: string,
  filters: Readonly<Record<string, string | undefined>>,
  next: ListPosition | null,
): string | null {
  if (next === null) return null
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(filters)) if (value) parameters.set(name, value)
  parameters.set('after', `${next.microseconds}_${next.id}`)
  return `${path}?${parameters.toString()}`
}
