/**
 * Intervals of estimated answers: their words, and the outlines of their bands.
 */

import { number } from "./wording.js";

/** A value counts as the middle of its interval up to this part of the half width, and of itself. */
const OFF_HALF = 0.01;
const OFF_VALUE = 1e-9;

/** Return the interval that an answer's values have: {low, high, confidence}. Null if they have none. */
export const intervalOf = ({ low, high, confidence }) =>
  (typeof low === "number" && typeof high === "number" ? { low, high, confidence } : null);

/** Format a value with its interval: ± half the width, or both ends if the value is not in the middle. */
export function estimate(value, interval = null) {
  if (!interval || typeof value !== "number") return number(value);
  const { low, high } = interval;
  const half = (high - low) / 2;
  const isMiddle = Math.abs((low + high) / 2 - value) <= OFF_HALF * half + OFF_VALUE * Math.abs(value);
  return isMiddle ? `${number(value)} ± ${half.toLocaleString("en", { maximumSignificantDigits: 2 })}`
    : `${number(value)} (${number(low)} to ${number(high)})`;
}

/** Name intervals by their confidence, such as "95 % interval". Empty if there are none. */
export function intervalName(intervals) {
  const found = intervals.filter((interval) => interval !== null);
  const known = [...new Set(found.map(({ confidence }) => confidence))].filter((confidence) => typeof confidence === "number");
  const percent = (confidence) => `${(100 * confidence).toLocaleString("en", { maximumFractionDigits: 2 })} %`;
  // Answers that were stored by an earlier version do not say their confidence.
  return found.length ? [known.sort().map(percent).join(" or "), "interval"].filter(Boolean).join(" ") : "";
}

/** Return the unbroken pieces of a band, each as its moments with their bounds: [{at, low, high}]. */
export function bandOf(moments, intervals) {
  const pieces = [];
  intervals.forEach((interval, i) => {
    if (!interval) return;
    if (!intervals[i - 1]) pieces.push([]);
    pieces.at(-1).push({ at: moments[i], low: interval.low, high: interval.high });
  });
  return pieces;
}
