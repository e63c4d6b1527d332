import type { TestProject } from 'vitest/node'
import { startSharedServices } from './shared-services.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The URL at which test files request shared services (`shared-services.ts`). */
    sharedServicesUrl: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const services = await startSharedServices()
  project.provide('sharedServicesUrl', services.url)
  return () => services.stop()
}
