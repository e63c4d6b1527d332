/** Returns a percentile by the nearest-rank method; NaN without values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

export const median = (values: readonly number[]) => percentile(values, 0.5)

export interface Trend {
  /** Per unit of x. */
  readonly slope: number
  /** Half the width of the slope's 95 % confidence interval. */
  readonly uncertainty: number
}

/** Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; above, the normal distribution's is used. */
const STUDENT_T = [
  12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.1, 2.09, 2.09,
  2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
]

/** Fits a line by least squares through at least three points. */
export function fitLine(points: readonly { readonly x: number; readonly y: number }[]): Trend {
  const count = points.length
  if (count < 3) throw new Error('a trend needs at least three points')
  const mean = (of: (point: { x: number; y: number }) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / count
  const [meanX, meanY] = [mean(({ x }) => x), mean(({ y }) => y)]
  const spread = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0)
  const slope = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spread
  const residual = points.reduce((sum, { x, y }) => sum + (y - meanY - slope * (x - meanX)) ** 2, 0)
  const freedom = count - 2
  const quantile = STUDENT_T[freedom - 1] ?? 1.96
  return { slope, uncertainty: quantile * Math.sqrt(residual / freedom / spread) }
}
