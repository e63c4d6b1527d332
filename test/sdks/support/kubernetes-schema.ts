import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CUSTOM_RESOURCES, isCustomResource } from '../../support/deployment/custom-resources.ts'
import type { KubernetesObject } from '../../support/deployment/kustomize.ts'

const MODULES = fileURLToPath(new URL('../node_modules', import.meta.url))
const TSC = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url))

/** Returns the package generated from the Kubernetes API's OpenAPI description, or from KEDA's resource definitions. */
function moduleOf({ apiVersion }: KubernetesObject): string {
  return apiVersion.startsWith('keda.sh/') ? `@kubernetes-models/keda/${apiVersion}` : `kubernetes-models/${apiVersion}`
}

type ModelModule = Readonly<Record<string, new (data: unknown) => { validate(): void }>>

/** Throws with the field that violates the schema of the object's kind. Unknown fields go unnoticed. */
export async function validateObject(object: KubernetesObject): Promise<void> {
  if (isCustomResource(object)) {
    CUSTOM_RESOURCES.parse(object)
    return
  }
  const models = (await import(moduleOf(object))) as ModelModule
  const Model = models[object.kind]
  if (!Model) throw new Error(`${moduleOf(object)} knows no ${object.kind}`)
  new Model(object).validate()
}

/**
 * Type-checks the objects as literals of their kinds' types and returns the findings, one a line: unlike the schemas,
 * the types also reject unknown fields.
 */
export async function findUnknownFields(objects: readonly KubernetesObject[]): Promise<readonly string[]> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-manifests-'))
  try {
    await symlink(MODULES, join(directory, 'node_modules'))
    // The schemas of custom resources reject unknown fields themselves.
    const lines = objects
      .filter((object) => !isCustomResource(object))
      .map(
        (object, index) =>
          `import type { I${object.kind} as Kind${index} } from '${moduleOf(object)}'\n` +
          `export const object${index}: Kind${index} = ${JSON.stringify(object, null, 2)}\n`,
      )
    await writeFile(join(directory, 'package.json'), '{"type":"module"}')
    await writeFile(join(directory, 'manifests.ts'), lines.join('\n'))
    const flags = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--target',
      'es2024',
      '--types',
      '',
    ]
    const tsc = [TSC, ...flags, 'manifests.ts']
    const { stdout } = await promisify(execFile)(process.execPath, tsc, { cwd: directory }).catch(
      (error: { stdout: string }) => error,
    )
    return stdout.split('\n').filter((line) => line !== '')
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
