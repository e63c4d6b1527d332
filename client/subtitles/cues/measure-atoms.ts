import type { SubtitleRules } from '../rules.ts'
import { columnsOf } from '../width.ts'
import type { Atom } from '../words.ts'
import { speakerLabel } from './shown-text.ts'

/** Widths of all atoms as running sums, so that the width of any line is a subtraction. */
export interface MeasuredAtoms {
  readonly count: number
  /** Columns of the text before each atom, with the space before it. */
  readonly sums: Float64Array
  /** Columns of the space before each atom: 0 or 1. */
  readonly spaces: Uint8Array
  /** 1 for each atom with another speaker than the atom before. */
  readonly turns: Uint8Array
  /** For each atom: the atom after the last one of its turn. */
  readonly turnEnds: Int32Array
  /** Columns of the label before each atom. */
  readonly labels: Uint16Array
  readonly dashColumns: number
}

export function measureAtoms(atoms: readonly Atom[], rules: SubtitleRules): MeasuredAtoms {
  const count = atoms.length
  const sums = new Float64Array(count + 1)
  const spaces = new Uint8Array(count)
  const turns = new Uint8Array(count)
  const turnEnds = new Int32Array(count)
  const labels = new Uint16Array(count)
  for (const [index, atom] of atoms.entries()) {
    const previous = atoms[index - 1]
    spaces[index] = atom.glued ? 0 : 1
    turns[index] = previous !== undefined && previous.speaker !== atom.speaker ? 1 : 0
    // A new label is needed only where a turn begins.
    const begins = index === 0 || turns[index] === 1
    if (begins && rules.speakers === 'label' && atom.speaker !== undefined) {
      labels[index] = columnsOf(speakerLabel(atom.speaker, rules))
    }
    sums[index + 1] = (sums[index] ?? 0) + (atom.glued ? 0 : 1) + columnsOf(atom.text)
  }
  for (let index = count - 1; index >= 0; index--) {
    turnEnds[index] = index === count - 1 || turns[index + 1] === 1 ? index + 1 : (turnEnds[index + 1] ?? count)
  }
  const dashColumns = rules.speakers === 'dash' ? columnsOf(rules.dash) : 0
  return { count, sums, spaces, turns, turnEnds, labels, dashColumns }
}

/** Returns the columns of the atoms from `from` to `to` on one line, without marks of speakers. */
export function columnsBetween({ sums, spaces }: MeasuredAtoms, from: number, to: number): number {
  return (sums[to] as number) - (sums[from] as number) - (spaces[from] as number)
}
