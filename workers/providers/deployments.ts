import type { TranscriptionProvider } from './provider.ts'

/** A private upstream that serves a public model. Its name is for logs and the attempts' rows, never for callers. */
export interface TranscriptionDeployment {
  readonly name: string
  readonly publicModel: string
  readonly provider: TranscriptionProvider
}

/** The deployment that serves `publicModel`, or `null` when none does. */
export function deploymentFor(
  deployments: readonly TranscriptionDeployment[],
  publicModel: string,
): TranscriptionDeployment | null {
  return deployments.find((deployment) => deployment.publicModel === publicModel) ?? null
}
