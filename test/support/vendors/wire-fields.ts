import type { z } from 'zod'

/*
 * Finds the fields that an adapter reads in the schema itself, and changes each in a full answer, so that no field of a
 * schema can be forgotten.
 */

export type Path = readonly (string | number)[]

/** What zod keeps of a schema; each type has some of these. */
interface Definition {
  readonly type: string
  readonly shape?: Readonly<Record<string, z.core.$ZodType>>
  readonly element?: z.core.$ZodType
  readonly innerType?: z.core.$ZodType
  readonly in?: z.core.$ZodType
  readonly options?: readonly z.core.$ZodType[]
}

/** Types without fields inside of them. */
const LEAVES: ReadonlySet<string> = new Set(['string', 'number', 'boolean', 'literal', 'enum', 'unknown'])

/** Returns the paths of all fields of a schema, and of the items of its lists, as `choices.*.message`. */
export function wireFields(schema: z.core.$ZodType): string[] {
  return [...new Set(fieldsOf(schema, ''))]
}

function fieldsOf(schema: z.core.$ZodType, path: string): string[] {
  const { type, shape, element, innerType, in: input, options } = (schema as z.ZodType).def as unknown as Definition
  const inside = (name: string) => (path === '' ? name : `${path}.${name}`)
  if (shape !== undefined)
    return Object.entries(shape).flatMap(([name, field]) => [inside(name), ...fieldsOf(field, inside(name))])
  if (element !== undefined) return [inside('*'), ...fieldsOf(element, inside('*'))]
  const next = innerType ?? input
  if (next !== undefined) return fieldsOf(next, path)
  if (options !== undefined) return options.flatMap((option) => fieldsOf(option, path))
  if (!LEAVES.has(type)) throw new Error(`the walk does not know what a schema of type ${type} reads at ${path}`)
  return []
}

/** Returns the places of a field in a document: one for each item of the lists on its way. */
export function placesOf(document: unknown, field: string): Path[] {
  let places: Path[] = [[]]
  for (const name of field.split('.')) {
    places = places.flatMap((place) => {
      const holder = valueAt(document, place)
      if (name === '*') return Array.isArray(holder) ? holder.map((_, index) => [...place, index]) : []
      return typeof holder === 'object' && holder !== null && name in holder ? [[...place, name]] : []
    })
  }
  return places
}

function valueAt(document: unknown, place: Path): unknown {
  return place.reduce<unknown>((holder, name) => (holder as Record<string | number, unknown>)[name], document)
}

const MISSING = Symbol('missing')

/** What stands in a field's place. A number is none that any field may have, and the text is an unknown word. */
export const CHANGES: Readonly<Record<string, unknown>> = {
  missing: MISSING,
  null: null,
  'a number': -7.5,
  'an unknown word': 'a hologram!',
  'a list': ['hologram'],
  'an object': { hologram: 1 },
}

/** Returns a copy of a document in which a place has another value. */
export function changed(document: unknown, place: Path, value: unknown): unknown {
  const copy = structuredClone(document)
  const name = place.at(-1)
  const holder = valueAt(copy, place.slice(0, -1))
  if (name === undefined) throw new Error('a place has a name')
  if (value !== MISSING) (holder as Record<string | number, unknown>)[name] = value
  else if (Array.isArray(holder)) holder.splice(Number(name), 1)
  else delete (holder as Record<string | number, unknown>)[name]
  return copy
}

/** Returns whether one of two places holds the other. */
export function isWithin(one: Path, other: Path): boolean {
  const shorter = Math.min(one.length, other.length)
  return one.slice(0, shorter).every((name, index) => name === other[index])
}
