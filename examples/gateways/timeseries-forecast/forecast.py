"""Forecast the temperature of each sensor: the mean of a rolling window, and a linear trend beyond it."""

from pyspark.sql import functions as f

from towpath.spark_job.job import Job


def forecasts(readings, window_s, slide_s, ahead_s):
    """Return count, mean and trend of each sensor's windows, and the value `ahead_s` beyond their end."""
    time = f.timestamp_seconds(f.coalesce(f.col("time"), f.col("arrived")))
    windows = (
        readings.where("sensor IS NOT NULL AND celsius IS NOT NULL")
        .withColumn("time", time)
        .withWatermark("time", f"{slide_s} seconds")
        .withColumn("window", f.window("time", f"{window_s} seconds", f"{slide_s} seconds"))
        # Seconds since the window's start: a regression over the time itself would lose its digits.
        .withColumn("x", f.col("time").cast("double") - f.col("window.start").cast("double"))
        .groupBy("sensor", "window")
        .agg(
            f.count("*").alias("readings"),
            f.avg("celsius").alias("mean"),
            f.regr_slope("celsius", "x").alias("slope"),
            f.regr_intercept("celsius", "x").alias("intercept"),
        )
    )
    beyond = f.col("intercept") + f.col("slope") * f.lit(window_s + ahead_s)
    return windows.select(
        "sensor",
        f.col("window.start").cast("double").alias("from"),
        f.col("window.end").cast("double").alias("until"),
        "readings",
        "mean",
        (f.col("slope") * 3600).alias("degrees_per_hour"),
        beyond.alias("forecast"),
    )


if __name__ == "__main__":
    job = Job()
    window_s, slide_s, ahead_s = (
        job.properties[name] for name in ("window.seconds", "slide.seconds", "ahead.seconds")
    )
    readings = job.events("sensor STRING, celsius DOUBLE, time DOUBLE, arrived DOUBLE")
    results = forecasts(readings, window_s, slide_s, ahead_s)
    job.run(results, every_s=job.properties["rdd.batchsize"], mode="update")
