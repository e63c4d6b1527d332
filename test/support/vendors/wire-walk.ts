import type { z } from 'zod'

/** A place in an answer, with list positions as numbers. */
export type WirePath = readonly (string | number)[]

interface Definition {
  readonly type: string
  readonly shape?: Readonly<Record<string, z.ZodType>>
  readonly element?: z.ZodType
  readonly innerType?: z.ZodType
  readonly in?: z.ZodType
  readonly options?: readonly z.ZodType[]
}

/**
 * Returns the path of every field that a wire schema reads, its first item standing for a list. It follows what schemas
 * are made of, so that a field that is added to a schema is among them.
 */
export function wirePaths(schema: z.ZodType, path: WirePath = []): WirePath[] {
  const definition = schema.def as unknown as Definition
  switch (definition.type) {
    case 'object':
      return Object.entries(definition.shape ?? {}).flatMap(([name, member]) => [
        [...path, name],
        ...wirePaths(member, [...path, name]),
      ])
    case 'array':
      return definition.element === undefined ? [] : [[...path, 0], ...wirePaths(definition.element, [...path, 0])]
    case 'union':
      return (definition.options ?? []).flatMap((option) => wirePaths(option, path))
    default: {
      const inner = definition.innerType ?? definition.in
      return inner === undefined ? [] : wirePaths(inner, path)
    }
  }
}

/** What a field may be instead of what is documented. */
export const ODD_VALUES: readonly unknown[] = [
  undefined,
  null,
  7,
  -1,
  1.5,
  true,
  '',
  'a new word',
  [],
  [7],
  {},
  { a: 1 },
]

/** Returns a copy of an answer with another value at a path, or without it; `null` where the answer has no such place. */
export function withValueAt(answer: unknown, path: WirePath, value: unknown): unknown {
  const copy: unknown = structuredClone(answer)
  let holder = copy as Record<string | number, unknown>
  for (const name of path.slice(0, -1)) {
    const next = holder[name]
    if (typeof next !== 'object' || next === null) return null
    holder = next as Record<string | number, unknown>
  }
  const last = path.at(-1) ?? ''
  if (!(last in holder)) return null
  if (value === undefined && !Array.isArray(holder)) delete holder[last]
  else holder[last] = value
  return copy
}
