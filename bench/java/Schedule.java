import java.io.Serializable;

/** A rate over the run, piecewise constant; stalls are phases of rate 0. */
final class Schedule implements Serializable {

    private static final double US_PER_S = 1e6;

    /** Starts of the phases, microseconds; the first is 0. */
    private final double[] atUs;
    /** Units of work per second in each phase. */
    private final double[] rate;

    Schedule(double[] atUs, double[] rate) {
        this.atUs = atUs;
        this.rate = rate;
    }

    /** Work that is due by a moment, in nanoseconds since the start. */
    double until(long ns) {
        double us = ns / 1e3;
        double work = 0;
        for (int i = 0; i < atUs.length && atUs[i] < us; i++) {
            double end = i + 1 < atUs.length ? Math.min(atUs[i + 1], us) : us;
            work += rate[i] * (end - atUs[i]) / US_PER_S;
        }
        return work;
    }

    /** The moment by which so much work is due, in nanoseconds; the largest long: never. */
    long when(double work) {
        double left = work;
        for (int i = 0; i < atUs.length; i++) {
            boolean isLast = i + 1 == atUs.length;
            double within = isLast
                    ? Double.POSITIVE_INFINITY
                    : rate[i] * (atUs[i + 1] - atUs[i]) / US_PER_S;
            if (rate[i] > 0 && left <= within) {
                return (long) Math.ceil((atUs[i] + left / rate[i] * US_PER_S) * 1e3);
            }
            left -= isLast ? 0 : within;
        }
        return Long.MAX_VALUE;
    }
}
