import { z } from 'zod'
import type { List, ListPosition } from '#shared/ledger/read-list.ts'

const POSITION = /^(\d{1,16})_(.{1,200})$/

/** The ids of a list of calls. */
export const isUuid = (text: string) => z.guid().safeParse(text).success

/**
 * Returns the query parameters of a position in a list, whose entries have ids that `isId` knows. `null` stands for the
 * beginning, which an unreadable position means too.
 */
export function listPosition(isId: (text: string) => boolean) {
  const position = z
    .string()
    .transform((text): ListPosition | null => {
      const [, microseconds, id] = POSITION.exec(text) ?? []
      return microseconds !== undefined && id !== undefined && isId(id)
        ? { microseconds: BigInt(microseconds), id }
        : null
    })
    .default(null)
  return { after: position, before: position.transform((position) => position ?? undefined) }
}

/** Returns the links from a part of a list to those around it, with the filters of this one; `null` where there is none. */
export function linksAround(
  path: string,
  filters: Readonly<Record<string, string | undefined>>,
  { previous, next }: Pick<List<unknown>, 'previous' | 'next'>,
): { readonly previous: string | null; readonly next: string | null } {
  const linkTo = (side: 'after' | 'before', position: ListPosition | null) => {
    if (position === null) return null
    const parameters = new URLSearchParams()
    for (const [name, value] of Object.entries(filters)) if (value) parameters.set(name, value)
    parameters.set(side, `${position.microseconds}_${position.id}`)
    return `${path}?${parameters.toString()}`
  }
  return { previous: linkTo('before', previous), next: linkTo('after', next) }
}
