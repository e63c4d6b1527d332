// Draws every element with `data-chart`, whose value is { times, unit, series: [{ label, tone, values }] }, and again when it changes.
const HEIGHT = 200
const charts = new Map()

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

function axis(unit) {
  return {
    stroke: color('muted'),
    grid: { stroke: color('line'), width: 1 },
    ticks: { stroke: color('line'), width: 1 },
    ...(unit === undefined ? {} : { size: 56, values: (_chart, splits) => splits.map((value) => `${value}`) }),
  }
}

/** Returns the time on a 24-hour clock, or the day where one begins. */
function timeOf(seconds, step) {
  const [day, time] = new Date(seconds * 1000).toISOString().split('T')
  return time.startsWith('00:00:00') ? day : time.slice(0, step < 60 ? 8 : 5)
}

const timesOf = (_chart, splits, _axis, _space, step) => splits.map((seconds) => timeOf(seconds, step))

function timeAxis() {
  return { ...axis(), label: 'UTC', labelSize: 18, values: timesOf }
}

const dataOf = ({ times, series }) => [times, ...series.map(({ values }) => values)]

function draw(element) {
  charts.get(element)?.destroy()
  const described = JSON.parse(element.dataset.chart)
  const { unit, series } = described
  const chart = new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT,
      // Times are shown in UTC, as everywhere in the console.
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
      axes: [timeAxis(), axis(unit)],
      series: [
        { label: 'Time (UTC)', value: '{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}' },
        ...series.map(({ label, tone }) => ({
          label,
          stroke: color(tone),
          width: 2,
          points: { size: 5 },
          value: (_chart, value) => (value === null ? '–' : `${value} ${unit}`),
        })),
      ],
    },
    dataOf(described),
    element,
  )
  charts.set(element, chart)
}

/** Shows changed values in the chart that is there: what is pointed at, zoomed into or hidden stays so. */
function update(element) {
  const chart = charts.get(element)
  const data = dataOf(JSON.parse(element.dataset.chart))
  if (chart?.data.length !== data.length) return draw(element)
  const [times] = chart.data
  const { min, max } = chart.scales.x
  const isZoomed = min > times[0] || max < times.at(-1)
  chart.batch(() => {
    chart.setData(data)
    if (isZoomed) chart.setScale('x', { min, max })
  })
}

const drawAll = () => {
  for (const element of document.querySelectorAll('[data-chart]')) draw(element)
}

drawAll()
const changes = new MutationObserver((records) => {
  for (const element of new Set(records.map(({ target }) => target))) update(element)
})
for (const element of charts.keys()) changes.observe(element, { attributeFilter: ['data-chart'] })
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll)
new ResizeObserver(() => {
  for (const [element, chart] of charts) chart.setSize({ width: element.clientWidth, height: HEIGHT })
}).observe(document.body)
