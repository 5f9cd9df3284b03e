"""The view through which a kernel thread sees memory."""
