import { z } from 'zod'
import type { List, ListPosition } from '#shared/adapters/postgres/read-list.ts'

const POSITION = /^(\d{1,16})_(.{1,200})$/

/** The ids of a list of calls. */
export const isUuid = (text: string) => z.guid().safeParse(text).success

/**
 * Returns the query parameters of a place in a list, whose entries have ids that `isId` knows. `null` stands for the
 * beginning, which an unreadable place means too.
 */
export function listPlace(isId: (text: string) => boolean) {
  const position = z
    .string()
    .transform((text): ListPosition | null => {
      const [, microseconds, id] = POSITION.exec(text) ?? []
      return microseconds !== undefined && id !== undefined && isId(id)
        ? { microseconds: BigInt(microseconds), id }
        : null
    })
    .default(null)
  return { after: position, before: position.transform((place) => place ?? undefined) }
}

/** Returns the links from a part of a list to those around it, with the filters of this one; `null` where there is none. */
export function linksAround(
  path: string,
  filters: Readonly<Record<string, string | undefined>>,
  { previous, next }: Pick<List<unknown>, 'previous' | 'next'>,
): { readonly previous: string | null; readonly next: string | null } {
  const linkTo = (side: 'after' | 'before', place: ListPosition | null) => {
    if (place === null) return null
    const parameters = new URLSearchParams()
    for (const [name, value] of Object.entries(filters)) if (value) parameters.set(name, value)
    parameters.set(side, `${place.microseconds}_${place.id}`)
    return `${path}?${parameters.toString()}`
  }
  return { previous: linkTo('before', previous), next: linkTo('after', next) }
}
