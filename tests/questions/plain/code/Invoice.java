package orchard.workshop;

import java.math.BigDecimal;
import java.time.LocalDate;

/** An invoice of the workshop. */
public class Invoice {
    /** Days until a reminder is sent. */
    private static final int REMINDER_AFTER_DAYS = 21;

    private final LocalDate day;
    private final BigDecimal net;

    public Invoice(LocalDate day, BigDecimal net) {
        this.day = day;
        this.net = net;
    }

    /** With value added tax of twenty percent; repairs of bicycles have no lower rate. */
    public BigDecimal gross() {
        return net.multiply(new BigDecimal("1.20"));
    }

    /** Whether the customer gets a reminder on that day. */
    public boolean isOverdue(LocalDate today) {
        return today.isAfter(day.plusDays(REMINDER_AFTER_DAYS));
    }
}
