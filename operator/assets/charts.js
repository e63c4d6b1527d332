// Draws every element with `data-chart`, whose value is { times, unit, series: [{ label, tone, values }] }.
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

function draw(element) {
  charts.get(element)?.destroy()
  const { times, unit, series } = JSON.parse(element.dataset.chart)
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
    [times, ...series.map(({ values }) => values)],
    element,
  )
  charts.set(element, chart)
}

const drawAll = () => {
  for (const element of document.querySelectorAll('[data-chart]')) draw(element)
}

drawAll()
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll)
new ResizeObserver(() => {
  for (const [element, chart] of charts) chart.setSize({ width: element.clientWidth, height: HEIGHT })
}).observe(document.body)
