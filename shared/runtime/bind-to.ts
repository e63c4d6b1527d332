type OnContext = (on: never, ...parameters: never[]) => unknown

/** The functions of a module without their first parameter. */
type Bound<Functions extends Record<string, OnContext>> = {
  readonly [Name in keyof Functions]: Functions[Name] extends (
    on: never,
    ...parameters: infer Parameters
  ) => infer Outcome
    ? (...parameters: Parameters) => Outcome
    : never
}

/** Returns a module's functions as one object, bound to their context, such as the pool that they run on. */
export function bindTo<On, Functions extends Record<string, (on: On, ...parameters: never[]) => unknown>>(
  on: On,
  functions: Functions,
): Bound<Functions> {
  const bound = Object.entries(functions).map(([name, run]) => [name, run.bind(null, on)])
  return Object.fromEntries(bound) as Bound<Functions>
}
