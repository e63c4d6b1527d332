import { parseSync } from 'oxc-parser'

/** A change of a source file, whose place is found by syntax: inside one declaration, by what the code does there. */
export interface SyntaxChange {
  /** Below the repository. */
  readonly file: string
  /** Name of the function, constant or SQL statement that is changed. */
  readonly within: string
  readonly change: Operation
}

/** Returns the edits that an operation makes inside a declaration. Throws unless it finds exactly one place. */
type Operation = (declaration: Place, source: string) => readonly Edit[]

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** A node of the ESTree that oxc-parser returns. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [member: string]: unknown
}

interface Place {
  readonly node: Node
  /** The nodes around it, innermost first. */
  readonly around: readonly Node[]
}

/**
 * Applies the changes of one file to its source. Throws when a place is missing or ambiguous, or the result does not
 * parse.
 */
export function changeSyntax(source: string, changes: readonly SyntaxChange[]): string {
  const [first] = changes
  if (!first) return source
  const root = parse(first.file, source)
  const edits = changes.flatMap(({ file, within, change }) => {
    const declarations = placesIn({ node: root, around: [] }).filter(({ node }) => isDeclarationOf(within, node))
    return change(only(declarations, `declarations of ${within} in ${file}`), source)
  })
  const changed = [...edits]
    .sort((one, other) => other.start - one.start)
    .reduce((text, { start, end, text: replacement }) => text.slice(0, start) + replacement + text.slice(end), source)
  parse(first.file, changed)
  return changed
}

/** Sets another value of a constant. */
export function setValue(code: string): Operation {
  return ({ node }) => [replace(asNode(node['init']), code)]
}

/** Replaces the call of a function or method. */
export function replaceCall(callee: string, code: string): Operation {
  return (declaration) => [replace(callOf(callee, declaration).node, code)]
}

/** Replaces one argument of a call. */
export function replaceArgument(callee: string, index: number, code: string): Operation {
  return (declaration) => [replace(argumentOf(callOf(callee, declaration), index), code)]
}

/** Appends an element to the array that is the first argument of a call. */
export function appendElement(callee: string, code: string): Operation {
  return (declaration) => {
    const elements = argumentOf(callOf(callee, declaration), 0)['elements'] as readonly Node[]
    return [insert(asNode(elements.at(-1)).end, `, ${code}`)]
  }
}

/** Removes the innermost statement that contains a call. */
export function removeStatement(callee: string): Operation {
  return (declaration) => [replace(enclosing('ExpressionStatement', callOf(callee, declaration)), ';')]
}

/** Removes the innermost `if` statement that mentions these identifiers and strings. */
export function removeIf(...mentioned: readonly string[]): Operation {
  return (declaration) => [replace(ifMentioning(mentioned, declaration), ';')]
}

/** Executes the innermost `if` statement that mentions these identifiers and strings under every condition. */
export function removeCondition(...mentioned: readonly string[]): Operation {
  return (declaration) => {
    const statement = ifMentioning(mentioned, declaration)
    return [{ start: statement.start, end: asNode(statement['consequent']).start, text: '' }]
  }
}

/** Returns another value from the innermost `if` statement that mentions these identifiers and strings. */
export function returnInstead(code: string, ...mentioned: readonly string[]): Operation {
  return (declaration) => {
    const returns = placesIn({ node: ifMentioning(mentioned, declaration), around: [] }).filter(
      ({ node }) => node.type === 'ReturnStatement',
    )
    return [replace(asNode(only(returns, 'return statements').node['argument']), code)]
  }
}

/** Removes the operand of an `||` that mentions an identifier. */
export function dropAlternative(mentioned: string): Operation {
  return (declaration) => {
    const alternatives = placesIn(declaration).flatMap(({ node }) => {
      if (node.type !== 'LogicalExpression' || node['operator'] !== '||') return []
      const [left, right] = [asNode(node['left']), asNode(node['right'])]
      return mentions(left, [mentioned]) ? [{ start: left.start, end: right.start, text: '' }] : []
    })
    return [only(alternatives, `alternatives that mention ${mentioned}`)]
  }
}

/** Moves the declarations of variables before the statement that contains a call. */
export function moveBefore(callee: string, ...variables: readonly string[]): Operation {
  return (declaration, source) => {
    const target = enclosing('VariableDeclaration', callOf(callee, declaration))
    const moved = variables.map((variable) => {
      const declarators = placesIn(declaration).filter(({ node }) => isDeclarationOf(variable, node))
      return enclosing('VariableDeclaration', only(declarators, `declarations of ${variable}`))
    })
    return [
      insert(target.start, moved.map(({ start, end }) => `${source.slice(start, end)};`).join('')),
      ...moved.map((node) => replace(node, ';')),
    ]
  }
}

/** Inserts code after the declaration that contains a call. */
export function insertAfter(callee: string, code: string): Operation {
  return (declaration) => [insert(enclosing('VariableDeclaration', callOf(callee, declaration)).end, `;${code};`)]
}

/** Replaces a part of a SQL statement. */
export function replaceSql(part: string, replacement: string): Operation {
  const pattern = new RegExp(part.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`), 'g')
  return (declaration, source) => replaceInSql(declaration, source, pattern, replacement)
}

function replaceInSql(declaration: Place, source: string, pattern: RegExp, text: string): readonly Edit[] {
  const literals = placesIn(declaration).filter(
    ({ node }) => node.type === 'TemplateElement' || (node.type === 'Literal' && typeof node['value'] === 'string'),
  )
  const found = literals.flatMap(({ node }) =>
    [...source.slice(node.start, node.end).matchAll(pattern)].map(({ index, 0: { length } }) => ({
      start: node.start + index,
      end: node.start + index + length,
      text,
    })),
  )
  return [only(found, `places that match ${pattern.source}`)]
}

function parse(file: string, source: string): Node {
  const { program, errors } = parseSync(file, source)
  if (errors.length > 0) throw new Error(`${file} does not parse: ${errors.map(({ message }) => message).join('; ')}`)
  return program as unknown as Node
}

/** Returns whether a node is a function, a constant, or the object of a SQL statement with this name. */
function isDeclarationOf(name: string, node: Node): boolean {
  if (node.type === 'FunctionDeclaration' || node.type === 'VariableDeclarator') return nameOf(node['id']) === name
  if (node.type !== 'ObjectExpression') return false
  return (node['properties'] as readonly Node[]).some(
    ({ key, value }) => nameOf(key) === 'name' && asNode(value)['value'] === name,
  )
}

function callOf(callee: string, declaration: Place): Place {
  const calls = placesIn(declaration).filter(
    ({ node }) => node.type === 'CallExpression' && calleeName(asNode(node['callee'])) === callee,
  )
  return only(calls, `calls of ${callee}`)
}

function argumentOf({ node }: Place, index: number): Node {
  return asNode((node['arguments'] as readonly unknown[])[index])
}

function ifMentioning(mentioned: readonly string[], declaration: Place): Node {
  const all = placesIn(declaration).filter(({ node }) => node.type === 'IfStatement' && mentions(node, mentioned))
  const innermost = all.filter(({ node }) => !all.some((other) => other.around.includes(node)))
  return only(innermost, `if statements that mention ${mentioned.join(' and ')}`).node
}

function mentions(node: Node, words: readonly string[]): boolean {
  const mentioned = new Set(placesIn({ node, around: [] }).map(({ node: inner }) => inner['name'] ?? inner['value']))
  return words.every((word) => mentioned.has(word))
}

function enclosing(type: string, { around }: Place): Node {
  return only(around.filter((node) => node.type === type).slice(0, 1), `${type}s around it`)
}

/** Returns the node and all nodes inside it. */
function placesIn(place: Place): readonly Place[] {
  const { node, around } = place
  const children = Object.values(node).flat().filter(isNode)
  return [place, ...children.flatMap((child) => placesIn({ node: child, around: [node, ...around] }))]
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value
}

function asNode(value: unknown): Node {
  if (!isNode(value)) throw new Error('the syntax is not what the change expects')
  return value
}

function nameOf(value: unknown): unknown {
  return isNode(value) ? value['name'] : undefined
}

function calleeName(callee: Node): unknown {
  return nameOf(callee.type === 'MemberExpression' ? callee['property'] : callee)
}

function replace({ start, end }: Node, text: string): Edit {
  return { start, end, text }
}

function insert(at: number, text: string): Edit {
  return { start: at, end: at, text }
}

function only<T>(found: readonly T[], what: string): T {
  const [one] = found
  if (one === undefined || found.length > 1) throw new Error(`expected one, found ${found.length} ${what}`)
  return one
}
